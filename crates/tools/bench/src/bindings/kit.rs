//! Each language's `bench` program, made out of the packages that its users install.

use super::Carrier;
use super::program::Program;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// Bytes of a compiler's words that are repeated.
const WORDS_MAX: usize = 600;

/// In the jar: it is compiled where there is Aeron.
const AERON_SOURCE: &str = "META-INF/examples/BenchAeron.java";

/// A language with a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Language {
    Rust,
    Python,
    Go,
    Node,
    Java,
    CSharp,
    Cpp,
}

impl Language {
    /// All but Rust, whose rows are always there.
    pub const OTHERS: [Language; 6] =
        [Language::Python, Language::Go, Language::Node, Language::Java, Language::CSharp, Language::Cpp];

    /// As options and rows say it.
    pub fn word(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::Go => "go",
            Language::Node => "node",
            Language::Java => "java",
            Language::CSharp => "csharp",
            Language::Cpp => "cpp",
        }
    }

    /// What has to be installed, and Debian's package of it.
    fn tools(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Language::Rust => &[],
            Language::Python => &[("python3", "python3")],
            Language::Go => &[("go", "golang-go"), ("cc", "gcc")],
            Language::Node => &[("node", "nodejs")],
            Language::Java => &[("java", "default-jre-headless")],
            Language::CSharp => &[("mono", "mono-runtime"), ("mcs", "mono-mcs")],
            Language::Cpp => &[("c++", "g++")],
        }
    }
}

/// What a language needs for a carrier of others, and how it is installed.
fn package_of(language: Language, carrier: Carrier) -> &'static str {
    match (language, carrier) {
        (Language::Python, Carrier::Zmq) => "python3 does not find zmq: `pip install pyzmq`",
        (Language::Python, Carrier::Grpc) => "python3 does not find grpc: `pip install grpcio`",
        (Language::Node, Carrier::Grpc) => {
            "node does not find @grpc/grpc-js: `npm install @grpc/grpc-js`, and its folder node_modules in NODE_PATH"
        }
        (Language::Java, Carrier::Aeron) => {
            "java does not find Aeron: download the jar `aeron-all`, and name it in CLASSPATH"
        }
        _ => "its program does not have it",
    }
}

impl Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Language, String> {
        let all = || [Language::Rust].into_iter().chain(Language::OTHERS);
        all().find(|language| language.word() == text.trim()).ok_or_else(|| {
            let names: Vec<&str> = all().map(Language::word).collect();
            format!("unknown language `{text}`; there are {}", names.join(", "))
        })
    }
}

/// Packages, and a folder in which programs are made of them. It is removed on drop.
pub struct Kit {
    packages: PathBuf,
    /// The same in the user's words.
    pub(super) shown: String,
    work: PathBuf,
    /// In memory, for what programs share with themselves.
    memory: PathBuf,
    pub(super) made: BTreeMap<Language, Result<Program, String>>,
    asked: BTreeMap<(Language, &'static str), Result<(), String>>,
}

impl Kit {
    /// Of the packages in this folder, as `make dist` leaves them. Nothing is done before a program is asked for.
    ///
    /// # Errors
    /// When there is no place to work in.
    pub fn of(packages: &Path) -> std::io::Result<Kit> {
        let name = format!("barewire-kit-{}", std::process::id());
        let work = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&work)?;
        let memory = Path::new("/dev/shm").join(name);
        let memory = if std::fs::create_dir(&memory).is_ok() { memory } else { work.clone() };
        let shown = text(packages);
        let packages = packages.canonicalize().unwrap_or_else(|_| packages.to_owned());
        Ok(Kit { packages, shown, work, memory, made: BTreeMap::new(), asked: BTreeMap::new() })
    }

    /// Whether the language finds the packages of others that a carrier is made of.
    ///
    /// # Errors
    /// What is missing, and how to install it.
    pub(super) fn ask_for(&mut self, language: Language, carrier: Carrier) -> Result<(), String> {
        if let Some(said) = self.asked.get(&(language, carrier.word())) {
            return said.clone();
        }
        let program = self.program(language)?;
        let missing = |_| package_of(language, carrier).to_owned();
        let said = program.asked(&["has", carrier.word()]).map_err(missing);
        self.asked.insert((language, carrier.word()), said.clone());
        said
    }

    /// The language's program.
    ///
    /// # Errors
    /// Why it cannot be made here, in words: for the language's row.
    pub(super) fn program(&mut self, language: Language) -> Result<Program, String> {
        if let Some(made) = self.made.get(&language) {
            return made.clone();
        }
        let made = self.make(language).map_err(|why| self.without_places(&why));
        self.made.insert(language, made.clone());
        made
    }

    /// What tools say, without this machine's folders: it goes into rows, which others read.
    fn without_places(&self, why: &str) -> String {
        why.replace(&text(&self.packages), &self.shown).replace(&text(&self.work), "(work)")
    }

    fn make(&self, language: Language) -> Result<Program, String> {
        for (tool, package) in language.tools() {
            if !is_installed(tool) {
                return Err(format!("{tool} is not installed: on Debian, `apt install {package}`"));
            }
        }
        let folder = self.work.join(language.word());
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        match language {
            Language::Rust => Err("Rust's ends are threads of this program".to_owned()),
            Language::Python => {
                let wheel = self.package("", "barewire-", ".whl")?;
                done(Command::new("python3").args(["-m", "zipfile", "-e"]).args([&wheel, &folder]))?;
                let words = ["python3", "-m", "barewire.examples.bench"].map(str::to_owned);
                Ok(Program { words: words.into(), env: vec![("PYTHONPATH", text(&folder))] })
            }
            Language::Go => self.go(&folder),
            Language::Node => {
                unpack(&self.package("", "barewire-", ".tgz")?, &folder)?;
                let words = vec!["node".to_owned(), text(&folder.join("package/examples/bench.js"))];
                Ok(Program { words, env: Vec::new() })
            }
            Language::Java => self.java(&folder),
            Language::CSharp => {
                let assembly = self.package("nuget/*/lib/netstandard2.0", "Barewire", ".dll")?;
                let package = assembly.ancestors().nth(3).unwrap_or(Path::new("/")).to_owned();
                let beside = folder.join("Barewire.dll");
                std::fs::copy(&assembly, &beside)
                    .map_err(|error| format!("{}: {error}", assembly.display()))?;
                let program = folder.join("bench.exe");
                done(
                    Command::new("mcs")
                        .args(["-optimize", &format!("-r:{}", beside.display())])
                        .arg(format!("-out:{}", program.display()))
                        .arg(package.join("examples/Bench.cs")),
                )?;
                let words = vec!["mono".to_owned(), text(&program)];
                let libraries = text(&package.join("runtimes/linux-x64/native"));
                Ok(Program { words, env: vec![("LD_LIBRARY_PATH", libraries)] })
            }
            Language::Cpp => {
                let prefix = self.prefix()?;
                let program = folder.join("bench");
                done(
                    Command::new("c++")
                        .args(["-std=c++17", "-O2", "-pthread", "-I"])
                        .args([
                            &prefix.join("include"),
                            &prefix.join("share/doc/barewire/examples/bench.cpp"),
                        ])
                        .args(["-o".as_ref(), program.as_os_str(), "-L".as_ref()])
                        .arg(prefix.join("lib"))
                        .args(["-lbarewire", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]),
                )?;
                Ok(Program { words: vec![text(&program)], env: Vec::new() })
            }
        }
    }

    /// With Aeron's end where the class path has Aeron; its classes look into the virtual machine's own.
    fn java(&self, folder: &Path) -> Result<Program, String> {
        let jar = text(&self.package("maven/dev/barewire/barewire/*", "barewire-", ".jar")?);
        let mut words =
            vec!["java".to_owned(), format!("-Djava.io.tmpdir={}", folder.display()), "-cp".to_owned()];
        let others = std::env::var("CLASSPATH").unwrap_or_default();
        if others.contains("aeron") {
            done(Command::new("jar").args(["--extract", "--file", &jar, AERON_SOURCE]).current_dir(folder))?;
            let path = format!("{}:{jar}:{others}", folder.display());
            let place = text(folder);
            done(Command::new("javac").args([
                "-cp",
                &path,
                "-d",
                &place,
                &text(&folder.join(AERON_SOURCE)),
            ]))?;
            words.push(path);
            words.push(format!("-Dbarewire.bench.memory={}", self.memory.display()));
            for package in ["sun.nio.ch", "jdk.internal.misc"] {
                words.extend(["--add-opens".to_owned(), format!("java.base/{package}=ALL-UNNAMED")]);
            }
        } else {
            words.push(jar);
        }
        words.push("dev.barewire.examples.Bench".to_owned());
        Ok(Program { words, env: Vec::new() })
    }

    /// Out of the module proxy in the folder, with the C package beside it.
    fn go(&self, folder: &Path) -> Result<Program, String> {
        let list = self.package("go/barewire.dev/go/@v", "v", ".zip")?;
        let version = list.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (prefix, module, program) = (self.prefix()?, folder.join("module"), folder.join("bench"));
        std::fs::create_dir_all(&module).map_err(|error| format!("{}: {error}", module.display()))?;
        let get = format!("barewire.dev/go@{version}");
        let tasks: [&[&str]; 3] = [
            &["mod", "init", "example.invalid/bench"],
            &["get", &get],
            &["build", "-o", &text(&program), "barewire.dev/go/examples/bench"],
        ];
        for task in tasks {
            let library = prefix.join("lib");
            let linking = format!("-L{0} -Wl,-rpath,{0}", library.display());
            done(
                Command::new("go")
                    .args(task)
                    .current_dir(&module)
                    .env("GOPROXY", format!("file://{}", self.packages.join("go").display()))
                    .env("GOFLAGS", "-mod=mod -modcacherw")
                    .env("GOMODCACHE", folder.join("modules"))
                    .env("GOSUMDB", "off")
                    .env("GOTOOLCHAIN", "local")
                    .env("CGO_ENABLED", "1")
                    .env("CGO_CFLAGS", format!("-O2 -I{}", prefix.join("include").display()))
                    .env("CGO_LDFLAGS", linking),
            )?;
        }
        Ok(Program { words: vec![text(&program)], env: Vec::new() })
    }

    /// The tarball, unpacked once.
    fn prefix(&self) -> Result<PathBuf, String> {
        let prefix = self.work.join("prefix");
        if !prefix.join("include").exists() {
            let name = format!("-linux-{}.tar.gz", std::env::consts::ARCH);
            std::fs::create_dir_all(&prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
            let tarball = self.package("", "barewire-", &name)?;
            done(Command::new("tar").args([
                "-xzf",
                &text(&tarball),
                "-C",
                &text(&prefix),
                "--strip-components",
                "1",
            ]))?;
        }
        Ok(prefix)
    }

    /// The one file in a folder of the packages with this begin and end; `*` is the first folder there.
    fn package(&self, folder: &str, begin: &str, end: &str) -> Result<PathBuf, String> {
        let mut path = self.packages.clone();
        let none = || {
            let place = &self.shown;
            format!("no package {begin}*{end} in {place}: `make dist` makes it where its tools are installed")
        };
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            path = if part == "*" {
                let mut folders = entries(&path).into_iter().filter(|path| path.is_dir());
                folders.next_back().ok_or_else(none)?
            } else {
                path.join(part)
            };
        }
        let fits = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with(begin) && name.ends_with(end)
        };
        entries(&path).into_iter().rfind(fits).ok_or_else(none)
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.work);
        let _ = std::fs::remove_dir_all(&self.memory);
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    done(Command::new("tar").args(["-xzf", &text(archive), "-C", &text(folder)]))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub(super) fn done(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|error| format!("{program}: {error}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = [out.stderr, out.stdout].concat();
    let said = String::from_utf8_lossy(&said[..said.len().min(WORDS_MAX)]).trim().to_owned();
    Err(format!("{program} failed: {said}"))
}
