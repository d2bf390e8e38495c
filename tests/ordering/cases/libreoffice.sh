#!/bin/bash
# LibreOffice without a screen: a text document made into ODT, PDF and DOCX.
. "$(dirname "$0")/../../workloads/lib.sh"

prepare() {
    wants soffice
    local i
    {
        echo "<html><body><h1>Document</h1>"
        for ((i = 0; i < 100; i++)); do echo "<h2>Section $i</h2><p>Some text of section $i, <b>bold</b> and plain.</p><table border=1><tr><td>$i</td><td>$((i * i))</td></tr></table>"; done
        echo "</body></html>"
    } >page.html
}

convert() {
    soffice --headless --norestore "-env:UserInstallation=file://$W/profile" --convert-to "$@" --outdir "$W"
}

run() {
    convert odt:writer8 --infilter=HTML page.html
    convert pdf page.odt
}

finish() { head -c 4 page.pdf | grep -q %PDF; }

dispatch "$@"
