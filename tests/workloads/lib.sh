# Read by every case (`. lib.sh`). A case is run as
#   CASE prepare W   not recorded: makes the inputs below W
#   CASE run W       recorded, with W as the current directory
#   CASE finish W    not recorded: the program's own check of a finished tree,
#                    on the recorded tree's copy and on the last replay of it;
#                    W may then be another path, and must not be changed much
# and ends with `dispatch "$@"` over functions of those names.
# Exit status 77, from prepare: the case cannot be run here (last line: why).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${CASE_PYTHON:-/usr/bin/python3}

skip() { echo "$*"; exit 77; }
wants() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || skip "$program is not installed"
    done
}

finish() { :; }

dispatch() {
    [ $# = 2 ] || { echo "usage: $0 prepare|run|finish W" >&2; exit 2; }
    case $1 in
        prepare | run | finish) ;;
        *) echo "$0: no such step: $1" >&2; exit 2 ;;
    esac
    W=$(cd "$2" && pwd)
    cd "$W"
    "$1"
}
