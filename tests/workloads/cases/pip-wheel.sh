#!/bin/bash
# Python: a virtual environment made (with pip, by ensurepip), and a wheel of
# 40 modules installed into it.
. "$(dirname "$0")/../lib.sh"

interpreter() {
    local candidate
    for candidate in /usr/bin/python3 "$python"; do
        if "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

prepare() {
    interpreter >interpreter || skip "no python3 with venv and ensurepip (Debian: python3-venv)"
    "$python" - <<'PYTHON'
import base64, hashlib, zipfile
info = "parcel-1.0.dist-info"
files = {
    "parcel/__init__.py": "".join(f"from .m{i} import f{i}\n" for i in range(40)),
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: parcel\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/entry_points.txt": "[console_scripts]\nparcel = parcel.m0:f0\n",
}
for i in range(40):
    files[f"parcel/m{i}.py"] = f'"""Module {i}."""\n\n\ndef f{i}(n=0):\n' + "".join(
        f"    n = (n * {k + 3} + {i}) % 100003\n" for k in range(30)) + "    return n\n"
record = ""
with zipfile.ZipFile("parcel-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
    for name, text in files.items():
        data = text.encode()
        wheel.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
PYTHON
}

run() {
    "$(cat interpreter)" -m venv venv
    venv/bin/pip --disable-pip-version-check install --no-index --no-deps parcel-1.0-py3-none-any.whl
    venv/bin/python -c 'import parcel; print(parcel.f39(7))' >use.out
}

finish() {
    PYTHONDONTWRITEBYTECODE=1 venv/bin/python -c 'import parcel; print(parcel.f39(7))' | cmp - use.out
}

dispatch "$@"
