#!/bin/bash
# Chromium without a screen renders a local page with pictures, a script and a
# database of its own, and saves what it sees.
. "$(dirname "$0")/../../workloads/lib.sh"

prepare() {
    wants chromium
    local i
    mkdir site
    for ((i = 0; i < 20; i++)); do
        echo "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><circle cx='20' cy='20' r='$((i % 20))' fill='green'/></svg>" >"site/p$i.svg"
    done
    {
        echo "<!doctype html><title>page</title><link rel=stylesheet href=style.css><script src=page.js></script><h1>Page</h1>"
        for ((i = 0; i < 20; i++)); do echo "<p>paragraph $i <img src=p$i.svg>"; done
    } >site/index.html
    echo "h1 { color: teal }" >site/style.css
    echo "localStorage.setItem('a', 'b'.repeat(5000)); indexedDB.open('d', 1).onupgradeneeded = e => e.target.result.createObjectStore('s');" >site/page.js
}

run() {
    chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-breakpad --user-data-dir="$W/profile" \
        --no-first-run --disable-background-networking --virtual-time-budget=2000 --screenshot="$W/page.png" \
        "file://$W/site/index.html" >chromium.log 2>&1
}

finish() { head -c 8 page.png | tail -c 7 | grep -q PNG; }

dispatch "$@"
