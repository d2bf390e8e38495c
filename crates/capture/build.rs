//! Compiles the programs that record in the kernel and finds libbpf. Where clang or libbpf is missing the recorder is
//! built without them and says what to install.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = "bpf/capture.bpf.c";
/// The programs: with what lets threads wait, in its three forms, without it, and for kernels before 5.17.
const OBJECTS: [(&str, &[&str]); 5] = [
    ("waiting.bpf.o", &["-DWITH_TASK_WORK=bpf_task_work_schedule_resume_impl", "-DTOLD_ITSELF"]),
    ("waiting_7_0.bpf.o", &["-DWITH_TASK_WORK=bpf_task_work_schedule_resume"]),
    ("waiting_6_18.bpf.o", &["-DWITH_TASK_WORK=bpf_task_work_schedule_resume", "-DTOLD_ITSELF"]),
    ("plain.bpf.o", &[]),
    ("plain_5_15.bpf.o", &["-DWITHOUT_LOOP"]),
];
const INSTALL: &str = "recording in the kernel needs clang, libbpf-dev, libelf-dev and zlib1g-dev (scripts/install-deps build): built without it, `record` uses ptrace";

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=REPRISE_EBPF");
    println!("cargo:rustc-check-cfg=cfg(ebpf)");
    let wanted = env::var_os("REPRISE_EBPF").is_none_or(|v| v != "0");
    match build() {
        _ if !wanted => {}
        Ok(()) => println!("cargo:rustc-cfg=ebpf"),
        Err(why) => {
            println!("cargo:warning={why}; {INSTALL}");
            // A file that is not there: Cargo asks again at each build, since what is missing may have been installed.
            println!("cargo:rerun-if-changed=bpf/until-it-is-installed");
        }
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let libraries = find_libraries(&out)?;
    for (name, flags) in OBJECTS {
        compile(&out.join(name), flags)?;
    }
    for line in libraries {
        println!("{line}");
    }
    Ok(())
}

fn compile(object: &Path, flags: &[&str]) -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new(&clang);
    command.args(["-g", "-O2", "-Wall", "-Wno-unused-function", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86"]);
    // `asm/types.h` lies in the directory of the host's architecture, where clang for another target does not look.
    command.arg(format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH));
    command.args(flags).arg("-c").arg(SOURCE).arg("-o").arg(object);
    run(&mut command, &clang.to_string_lossy()).map(drop)
}

/// The lines that link libbpf: static where the archives are there, else shared.
fn find_libraries(out: &Path) -> Result<Vec<String>, String> {
    let archives = ["bpf", "elf", "z"].map(|name| archive(&format!("lib{name}.a")).map(|dir| (name, dir)));
    if let [Some(bpf), Some(elf), Some(z)] = &archives
        && links(out, &["-l:libbpf.a", "-l:libelf.a", "-l:libz.a"]).is_ok()
    {
        let each = [bpf, elf, z];
        let search = each.iter().map(|(_, dir)| format!("cargo:rustc-link-search=native={}", dir.display()));
        let link = each.iter().map(|(name, _)| format!("cargo:rustc-link-lib=static={name}"));
        return Ok(search.chain(link).collect());
    }
    links(out, &["-lbpf", "-lelf", "-lz"])?;
    Ok(["bpf", "elf", "z"].iter().map(|name| format!("cargo:rustc-link-lib={name}")).collect())
}

/// The directory where the compiler finds an archive.
fn archive(file: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={file}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let path = path.canonicalize().ok()?;
    path.is_absolute().then(|| path.parent().map(Path::to_path_buf))?
}

/// Whether a program that calls libbpf links.
fn links(out: &Path, libraries: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.args(["-x", "c", "-", "-o"]).arg(out.join("links")).args(libraries).stdin(Stdio::piped());
    let program = "int bpf_object__load(void*); int main(void){return bpf_object__load(0);}\n";
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| format!("cc: {e}"))?;
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(program.as_bytes()));
    let status = child.wait().map_err(|e| format!("cc: {e}"))?;
    match (written, status.success()) {
        (Some(Ok(())), true) => Ok(()),
        _ => Err(format!("libbpf is not there to link with ({})", libraries.join(" "))),
    }
}

fn run(command: &mut Command, name: &str) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|l| l.contains("error")).unwrap_or("it failed");
    Err(format!("{} of {}: {first}", OsStr::new(name).to_string_lossy(), SOURCE))
}
