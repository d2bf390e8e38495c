//! The few functions of libbpf that load programs into the kernel, and memory shared with them.
//!
//! Goals: ownership by Rust's rules, errors as [`io::Error`]. Non-goals: knowing which maps there are.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

#[repr(C)]
struct BpfObject(c_void);
#[repr(C)]
struct BpfMap(c_void);
#[repr(C)]
struct BpfProgram(c_void);
#[repr(C)]
struct BpfLink(c_void);
#[repr(C)]
struct RingBuffer(c_void);

#[repr(C)]
struct Btf(c_void);
/// `struct btf_type`.
#[repr(C)]
struct BtfType {
    name: u32,
    info: u32,
    of: u32,
}

/// `struct bpf_test_run_opts`.
#[repr(C)]
struct RunOptions {
    size: usize,
    data: [*const c_void; 2],
    data_sizes: [u32; 2],
    context: [*const c_void; 2],
    context_sizes: [u32; 2],
    result: u32,
    repeat: c_int,
    duration: u32,
    flags: u32,
    cpu: u32,
    batch: u32,
}

/// `struct bpf_prog_info`, as far as it is looked at (Linux 5.12).
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    before: [u64; 26],
    /// Times that the program was not run since it, or another thread in it, was being run on the processor.
    recursion_misses: u64,
}

type Print = unsafe extern "C" fn(c_int, *const c_char, *mut c_void) -> c_int;
type Sample = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;

unsafe extern "C" {
    fn libbpf_set_print(print: Option<Print>) -> Option<Print>;
    fn bpf_object__open_mem(bytes: *const c_void, size: usize, options: *const c_void) -> *mut BpfObject;
    fn bpf_object__load(object: *mut BpfObject) -> c_int;
    fn bpf_object__close(object: *mut BpfObject);
    fn bpf_object__find_map_by_name(object: *const BpfObject, name: *const c_char) -> *mut BpfMap;
    fn bpf_object__next_program(object: *const BpfObject, program: *mut BpfProgram) -> *mut BpfProgram;
    fn bpf_program__set_autoload(program: *mut BpfProgram, load: bool) -> c_int;
    fn bpf_program__autoload(program: *const BpfProgram) -> bool;
    fn bpf_program__attach_iter(program: *const BpfProgram, options: *const c_void) -> *mut BpfLink;
    fn bpf_link__fd(link: *const BpfLink) -> c_int;
    fn bpf_iter_create(link: c_int) -> c_int;
    fn btf__load_vmlinux_btf() -> *mut Btf;
    fn btf__free(types: *mut Btf);
    fn btf__find_by_name_kind(types: *const Btf, name: *const c_char, kind: u32) -> c_int;
    fn btf__type_by_id(types: *const Btf, id: u32) -> *const BtfType;
    fn bpf_program__attach(program: *const BpfProgram) -> *mut BpfLink;
    fn bpf_program__name(program: *const BpfProgram) -> *const c_char;
    fn bpf_program__fd(program: *const BpfProgram) -> c_int;
    fn bpf_object__find_program_by_name(object: *const BpfObject, name: *const c_char) -> *mut BpfProgram;
    fn bpf_obj_get_info_by_fd(fd: c_int, info: *mut c_void, bytes: *mut u32) -> c_int;
    fn bpf_prog_test_run_opts(fd: c_int, options: *mut RunOptions) -> c_int;
    fn bpf_link__destroy(link: *mut BpfLink) -> c_int;
    fn bpf_map__fd(map: *const BpfMap) -> c_int;
    fn bpf_map__set_max_entries(map: *mut BpfMap, entries: u32) -> c_int;
    fn bpf_map__reuse_fd(map: *mut BpfMap, fd: c_int) -> c_int;
    fn bpf_map__set_initial_value(map: *mut BpfMap, data: *const c_void, size: usize) -> c_int;
    fn bpf_map__value_size(map: *const BpfMap) -> u32;
    fn bpf_map_update_elem(fd: c_int, key: *const c_void, value: *const c_void, flags: u64) -> c_int;
    fn ring_buffer__new(fd: c_int, sample: Sample, context: *mut c_void, options: *const c_void) -> *mut RingBuffer;
    fn ring_buffer__poll(ring: *mut RingBuffer, timeout_ms: c_int) -> c_int;
    fn ring_buffer__free(ring: *mut RingBuffer);
}

/// The first fields of `union bpf_attr` for a new map (`include/uapi/linux/bpf.h`).
#[repr(C)]
struct NewMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

/// A map of one element, as libbpf makes them for variables: what programs refer to by address, and user space maps.
fn new_variable(name: &CStr, value_bytes: u32) -> io::Result<OwnedFd> {
    const MAP_CREATE: c_int = 0;
    const ARRAY: u32 = 2;
    const MAPPABLE: u32 = 1 << 10;
    let mut map = NewMap {
        kind: ARRAY,
        key_bytes: 4,
        value_bytes,
        entries: 1,
        flags: MAPPABLE,
        inner: 0,
        node: 0,
        name: [0; 16],
    };
    let (bytes, room) = (name.to_bytes(), map.name.len() - 1);
    let kept = bytes.len().min(room);
    map.name[..kept].copy_from_slice(&bytes[..kept]);
    // SAFETY: the structure is as long as is said, and what the kernel knows beyond it counts as zero.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, &raw const map, size_of::<NewMap>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and so owned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

fn owned<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

/// Programs and maps, as compiled, then as loaded.
pub struct Object {
    object: NonNull<BpfObject>,
    links: Vec<NonNull<BpfLink>>,
}

// SAFETY: libbpf keeps no state per thread; an object is used by one thread at a time.
unsafe impl Send for Object {}

impl Object {
    /// Opens a compiled object. `say` lets libbpf write its complaints to standard error.
    pub fn open(bytes: &'static [u8], say: bool) -> io::Result<Object> {
        if !say {
            // SAFETY: no function is a valid one.
            unsafe { libbpf_set_print(None) };
        }
        // SAFETY: the bytes live for ever; no options are valid ones.
        let object = unsafe { bpf_object__open_mem(bytes.as_ptr().cast(), bytes.len(), std::ptr::null()) };
        Ok(Object { object: owned(object)?, links: Vec::new() })
    }

    fn map(&self, name: &CStr) -> io::Result<NonNull<BpfMap>> {
        // SAFETY: the object is live and the name a C string.
        owned(unsafe { bpf_object__find_map_by_name(self.object.as_ptr(), name.as_ptr()) })
    }

    /// Sets the size of a map; before loading.
    pub fn resize(&mut self, map: &CStr, entries: u32) -> io::Result<()> {
        // SAFETY: the map belongs to the live object.
        check(unsafe { bpf_map__set_max_entries(self.map(map)?.as_ptr(), entries) })
    }

    /// Makes the map of a large variable that is zero at first; before loading. libbpf would make one, too, and write all its zeros
    /// into it.
    pub fn make_zeros(&mut self, variable: &CStr) -> io::Result<()> {
        let map = self.map(variable)?;
        // SAFETY: the map belongs to the live object.
        let value_bytes = unsafe { bpf_map__value_size(map.as_ptr()) };
        let made = new_variable(variable, value_bytes)?;
        // SAFETY: as above; libbpf keeps a descriptor of its own.
        check(unsafe { bpf_map__reuse_fd(map.as_ptr(), made.as_raw_fd()) })
    }

    /// Sets the constants; before loading.
    pub fn constants(&mut self, bytes: &[u8]) -> io::Result<()> {
        let map = self.map(c".rodata")?;
        // SAFETY: the map belongs to the live object; libbpf checks the size and copies.
        check(unsafe { bpf_map__set_initial_value(map.as_ptr(), bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Brings maps and programs into the kernel.
    pub fn load(&mut self) -> io::Result<()> {
        // SAFETY: the object is live.
        check(unsafe { bpf_object__load(self.object.as_ptr()) })
    }

    /// The descriptor of a map, valid as long as the object is.
    pub fn descriptor(&self, map: &CStr) -> io::Result<RawFd> {
        // SAFETY: the map belongs to the live object.
        let fd = unsafe { bpf_map__fd(self.map(map)?.as_ptr()) };
        check(fd)?;
        Ok(fd)
    }

    /// How many bytes an element of a map has.
    pub fn element_bytes(&self, map: &CStr) -> io::Result<usize> {
        // SAFETY: the map belongs to the live object.
        Ok(unsafe { bpf_map__value_size(self.map(map)?.as_ptr()) } as usize)
    }

    /// Sets an element. The value is padded with zeros to the size that the map has.
    pub fn set(&self, map: &CStr, key: &[u8], value: &[u8]) -> io::Result<()> {
        // SAFETY: the map belongs to the live object.
        let size = unsafe { bpf_map__value_size(self.map(map)?.as_ptr()) } as usize;
        let mut padded = vec![0u8; size.next_multiple_of(8)];
        let n = value.len().min(size);
        padded[..n].copy_from_slice(&value[..n]);
        let key = if key.is_empty() { std::ptr::null() } else { key.as_ptr().cast() };
        // SAFETY: the value is as long as the map's; the keys that callers give are as long as the map's.
        check(unsafe { bpf_map_update_elem(self.descriptor(map)?, key, padded.as_ptr().cast(), 0) })
    }

    fn program(&self, name: &CStr) -> io::Result<NonNull<BpfProgram>> {
        // SAFETY: the object is live and the name a C string.
        owned(unsafe { bpf_object__find_program_by_name(self.object.as_ptr(), name.as_ptr()) })
    }

    /// Does without a program; before loading.
    pub fn leave_out(&mut self, program: &CStr) -> io::Result<()> {
        // SAFETY: the program belongs to the live object.
        check(unsafe { bpf_program__set_autoload(self.program(program)?.as_ptr(), false) })
    }

    /// Runs a program once for each of the things that it walks over; gives what it wrote.
    pub fn walk(&self, program: &CStr) -> io::Result<Vec<u8>> {
        let program = self.program(program)?;
        // SAFETY: the program belongs to the live object; no options are valid ones.
        let link = owned(unsafe { bpf_program__attach_iter(program.as_ptr(), std::ptr::null()) })?;
        // SAFETY: the link is live.
        let walk = unsafe { bpf_iter_create(bpf_link__fd(link.as_ptr())) };
        let written = check(walk).and_then(|()| {
            let mut all = Vec::new();
            // SAFETY: the descriptor is new and so owned.
            let mut walk = unsafe { std::fs::File::from_raw_fd(walk) };
            // The kernel pauses after a million things of which nothing was written.
            while let Err(error) = io::Read::read_to_end(&mut walk, &mut all) {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(error);
                }
            }
            Ok(all)
        });
        // SAFETY: the link is destroyed once.
        unsafe { bpf_link__destroy(link.as_ptr()) };
        written
    }

    /// Attaches all programs but some.
    pub fn attach(&mut self, skipped: &[&CStr]) -> io::Result<()> {
        let mut program = std::ptr::null_mut();
        loop {
            // SAFETY: the object is live, and the program is null or one of its own.
            program = unsafe { bpf_object__next_program(self.object.as_ptr(), program) };
            if program.is_null() {
                return Ok(());
            }
            // SAFETY: as above, and its name lives as long.
            let (loaded, name) =
                unsafe { (bpf_program__autoload(program), CStr::from_ptr(bpf_program__name(program))) };
            if !loaded || skipped.contains(&name) {
                continue;
            }
            // SAFETY: as above.
            self.links.push(owned(unsafe { bpf_program__attach(program) })?);
        }
    }

    /// Runs a program that is attached nowhere, with these arguments.
    pub fn run(&self, program: &CStr, arguments: &[u64]) -> io::Result<()> {
        let none = std::ptr::null();
        // An address of nothing is refused.
        let given = if arguments.is_empty() { none } else { arguments.as_ptr().cast() };
        let mut options = RunOptions {
            size: size_of::<RunOptions>(),
            data: [none; 2],
            data_sizes: [0; 2],
            context: [given, none],
            context_sizes: [size_of_val(arguments) as u32, 0],
            result: 0,
            repeat: 0,
            duration: 0,
            flags: 0,
            cpu: 0,
            batch: 0,
        };
        let program = self.program(program)?;
        // SAFETY: the options are as libbpf has them, and what they point to lives during the call.
        check(unsafe { bpf_prog_test_run_opts(bpf_program__fd(program.as_ptr()), &raw mut options) })
    }

    /// How often programs were not run since they were being run already; those that were left out were not.
    pub fn misses(&self, programs: &[&CStr]) -> io::Result<u64> {
        let misses = programs.iter().map(|name| {
            let mut info = ProgramInfo::default();
            let mut bytes = size_of::<ProgramInfo>() as u32;
            // SAFETY: the program belongs to the live object.
            let fd = unsafe { bpf_program__fd(self.program(name)?.as_ptr()) };
            if fd < 0 {
                return Ok(0);
            }
            // SAFETY: no more is written than the structure has room for.
            check(unsafe { bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut bytes) })?;
            Ok(info.recursion_misses)
        });
        misses.sum()
    }

    /// Detaches them; those that run end by themselves.
    pub fn detach(&mut self) {
        for link in self.links.drain(..) {
            // SAFETY: each link is destroyed once.
            unsafe { bpf_link__destroy(link.as_ptr()) };
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.detach();
        // SAFETY: the object is closed once, and not used after it.
        unsafe { bpf_object__close(self.object.as_ptr()) };
    }
}

/// The types of the running kernel.
pub struct Types(NonNull<Btf>);

impl Types {
    /// Reads them.
    pub fn load() -> io::Result<Types> {
        // SAFETY: no memory is involved.
        owned(unsafe { btf__load_vmlinux_btf() }).map(Types)
    }

    /// How many arguments a tracepoint has; none if there is no such tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        const TYPEDEF: u32 = 8;
        let name = CString::new(format!("btf_trace_{name}")).ok()?;
        // SAFETY: the types are live, the name is a C string, and each number comes from the types themselves.
        unsafe {
            let id = btf__find_by_name_kind(self.0.as_ptr(), name.as_ptr(), TYPEDEF);
            let defined = btf__type_by_id(self.0.as_ptr(), u32::try_from(id).ok()?).as_ref()?;
            let pointer = btf__type_by_id(self.0.as_ptr(), defined.of).as_ref()?;
            let function = btf__type_by_id(self.0.as_ptr(), pointer.of).as_ref()?;
            // The first is what the tracepoint gives to each of its listeners.
            (function.info & 0xffff).checked_sub(1)
        }
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: freed once.
        unsafe { btf__free(self.0.as_ptr()) };
    }
}

/// Pushes a number on a stack map.
pub fn push(stack: RawFd, number: u32) -> io::Result<()> {
    // SAFETY: a stack has no key; its values are numbers.
    check(unsafe { bpf_map_update_elem(stack, std::ptr::null(), (&raw const number).cast(), 0) })
}

/// A ring of short messages from the kernel.
pub struct Ring {
    ring: NonNull<RingBuffer>,
    /// What arrived during a poll; libbpf has its address.
    arrived: NonNull<Vec<[u32; 2]>>,
}

// SAFETY: as for `Object`.
unsafe impl Send for Ring {}

unsafe extern "C" fn sample(context: *mut c_void, data: *mut c_void, size: usize) -> c_int {
    if size >= 8 {
        // SAFETY: the context is the vector of the ring being polled; the message has at least 8 bytes.
        unsafe { (*context.cast::<Vec<[u32; 2]>>()).push(data.cast::<[u32; 2]>().read_unaligned()) };
    }
    0
}

impl Ring {
    /// The ring of a map.
    pub fn new(map: RawFd) -> io::Result<Ring> {
        let arrived = Box::into_raw(Box::<Vec<[u32; 2]>>::default());
        // SAFETY: the context lives as long as the ring.
        match owned(unsafe { ring_buffer__new(map, sample, arrived.cast(), std::ptr::null()) }) {
            Ok(ring) => Ok(Ring { ring, arrived: owned(arrived)? }),
            Err(e) => {
                // SAFETY: made above, and given to nobody.
                drop(unsafe { Box::from_raw(arrived) });
                Err(e)
            }
        }
    }

    /// What has arrived, waiting for it so long at most.
    pub fn poll(&mut self, timeout_ms: i32) -> io::Result<Vec<[u32; 2]>> {
        // SAFETY: the ring is live, and so is its context.
        match check(unsafe { ring_buffer__poll(self.ring.as_ptr(), timeout_ms) }) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            // SAFETY: live as long as the ring, and nobody polls it now.
            _ => Ok(std::mem::take(unsafe { self.arrived.as_mut() })),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both are freed once, the ring first.
        unsafe {
            ring_buffer__free(self.ring.as_ptr());
            drop(Box::from_raw(self.arrived.as_ptr()));
        }
    }
}

/// A descriptor of a process.
pub fn process_descriptor(pid: i32) -> io::Result<std::os::fd::OwnedFd> {
    // SAFETY: no memory is involved; the descriptor returned is new and so owned.
    unsafe {
        let fd: c_long = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(std::os::fd::OwnedFd::from_raw_fd(fd as RawFd))
    }
}
