# For the cases of fio: blocks with checksums written and read again by an
# engine, in a pattern that its seed determines. Set before: `engine`, the
# arguments that choose it.

job() { # job ARGUMENTS...
    fio --name=job --filename="$W/file" --size=4m --bs=4k --thread --randrepeat=1 --fsync=32 \
        --verify=crc32c --verify_state_save=0 --output="$W/report.$1" "${engine[@]}" "${@:2}"
}

prepare() {
    wants fio
    local name=${engine[0]#--ioengine=}
    fio --enghelp 2>/dev/null | grep -qw "$name" || skip "this fio has no $name"
    fio "${engine[@]}" --name=probe --filename="$W/probe" --size=4k --rw=write --output=/dev/null || skip "$name is refused here"
    rm -f probe
}

run() {
    job write --rw=randwrite --do_verify=1
    job mixed --rw=randrw --rwmixread=40 --io_size=2m --do_verify=0
}

finish() { # fio finds its checksums in a replayed file
    local scratch
    scratch=$(mktemp -d)
    cp file "$scratch/file"
    fio --name=check --filename="$scratch/file" --size=4m --bs=4k --rw=read --ioengine=psync --verify=crc32c \
        --do_verify=1 --output=/dev/null
    rm -r "$scratch"
}
