//! The C library as `make install-lib` installs it: found by pkg-config and by CMake, shared and static, also after a move.

mod rig;

use barewire_testing::{Folder, Needs, skip_part};
use rig::{Program, Rig, bindings, have, library};
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    bindings().join("../..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Whether a tool is here; if not, it is said what is left out.
fn tool(name: &str) -> bool {
    let there = Command::new(name).arg("--version").output().is_ok();
    if !there {
        skip_part(Needs::Tools, format!("{name}: not installed; the C library is not looked for by it"));
    }
    there
}

/// Installs by the Makefile, without cargo, into `PREFIX` below `DESTDIR`, and moves it all to another place.
fn installed(dir: &Path) -> PathBuf {
    let release = dir.join("target/release");
    std::fs::create_dir_all(&release).unwrap();
    // This package's test has this package's library; the others' files only have to be there.
    for name in ["barewire", "bwfeed", "bwverbs"] {
        for end in ["so", "a"] {
            let from = library(&format!("libbarewire.{end}"));
            std::os::unix::fs::symlink(from, release.join(format!("lib{name}.{end}"))).unwrap();
        }
    }
    let dest = dir.join("dest");
    run(Command::new("make")
        .args(["--no-print-directory", "install-lib", "CARGO=no-such-cargo", "PREFIX=/opt/barewire"])
        .arg(format!("CARGO_TARGET_DIR={}", dir.join("target").display()))
        .arg(format!("DESTDIR={}", dest.display()))
        .current_dir(repository()));
    let prefix = dir.join("elsewhere");
    std::fs::rename(dest.join("opt/barewire"), &prefix).unwrap();
    prefix
}

/// The library is found where it lies, and the program talks to another one through two daemons.
fn echoes(program: &Path, rig: &Rig) {
    let mut server = Program::start(program, &rig.socket(2), &["888"]);
    assert_eq!(server.line(), "listening on UDP port 888");
    assert_eq!(Program::start(program, &rig.socket(1), &["10.9.0.2:888", "hello"]).succeed(), "hello\n");
}

#[test]
fn programs_are_built_by_pkg_config_and_by_cmake() {
    if !have("cc") || !have("make") {
        return;
    }
    let dir = Folder::new("installed");
    let prefix = installed(dir.path());
    let lib = prefix.join("lib");
    let source = bindings().join("examples/echo.c");
    let rig = Rig::start("installed");
    if tool("pkg-config") {
        let flags = |how: &[&str]| -> Vec<String> {
            let mut command = Command::new("pkg-config");
            command.args(how).arg("barewire").env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
            run(&mut command).split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
        let shared = dir.file("shared");
        let found_at_run = format!("-Wl,-rpath,{}", lib.display());
        let cc = |program: &Path, flags: Vec<String>| {
            run(Command::new("cc").arg("-std=c11").arg(&source).arg("-o").arg(program).args(flags));
        };
        cc(&shared, [flags(&["--cflags", "--libs"]), vec![found_at_run]].concat());
        echoes(&shared, &rig);
        // The archive by its own name, and what pkg-config says that it needs beside.
        let by_archive =
            |flag: String| if flag == "-lbarewire" { "-l:libbarewire.a".to_owned() } else { flag };
        let stand_alone = dir.file("static");
        cc(&stand_alone, flags(&["--static", "--cflags", "--libs"]).into_iter().map(by_archive).collect());
        std::fs::rename(lib.join("libbarewire.so"), dir.file("away.so")).unwrap();
        echoes(&stand_alone, &rig);
        std::fs::rename(dir.file("away.so"), lib.join("libbarewire.so")).unwrap();
    }
    if tool("cmake") {
        let project = dir.file("project");
        std::fs::create_dir(&project).unwrap();
        let text = |version: &str, components: &str| {
            format!(
                "cmake_minimum_required(VERSION 3.16)\nproject(hello C)\n\
                 find_package(barewire {version} CONFIG REQUIRED {components})\n\
                 foreach(kind barewire barewire_static)\n\
                 add_executable(${{kind}} {})\n\
                 target_link_libraries(${{kind}} PRIVATE barewire::${{kind}})\n\
                 endforeach()\n",
                source.display()
            )
        };
        let configure = |label: &str, version: &str, components: &str| {
            std::fs::write(project.join("CMakeLists.txt"), text(version, components)).unwrap();
            let mut command = Command::new("cmake");
            command.arg("-S").arg(&project).arg("-B").arg(dir.file(label));
            command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
            command
        };
        run(&mut configure("build", env!("CARGO_PKG_VERSION"), "COMPONENTS barewire bwfeed"));
        run(Command::new("cmake").arg("--build").arg(dir.file("build")));
        for kind in ["barewire", "barewire_static"] {
            echoes(&dir.file("build").join(kind), &rig);
        }
        for (label, version, components) in [("later", "99.0", ""), ("unknown", "", "COMPONENTS bwgone")] {
            let out = configure(label, version, components).output().unwrap();
            assert!(!out.status.success(), "{label}: {}", String::from_utf8_lossy(&out.stdout));
        }
    }
}

#[test]
fn without_cargo_and_libraries_it_says_what_to_do() {
    if !have("make") {
        return;
    }
    let dir = Folder::new("not-built");
    let install = |more: &[&str]| {
        Command::new("make")
            .args(["--no-print-directory", "install-lib", "CARGO=no-such-cargo"])
            .arg(format!("CARGO_TARGET_DIR={}", dir.path().display()))
            .arg(format!("DESTDIR={}", dir.file("dest").display()))
            .args(more)
            .current_dir(repository())
            .output()
            .unwrap()
    };
    let alone = install(&[]);
    assert!(!alone.status.success());
    assert!(String::from_utf8_lossy(&alone.stderr).contains("hint: make lib"), "{alone:?}");
    // As a part of `make install`, whose program is there.
    assert!(install(&["OPTIONAL=1"]).status.success());
    assert!(!dir.file("dest").exists());
}
