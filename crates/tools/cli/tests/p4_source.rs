//! Verbs for P4 source: layout in place and on standard output, and a language server that an editor talks to over its standard
//! input and output.

mod common;

use barewire_testing::{Needs, have, program};
use common::{barewire, run, said};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

const UGLY: &str = "control  c( ){apply{ x=1; // why\n }}\n";
const FAIR: &str = "control c() {\n    apply {\n        x = 1; // why\n    }\n}\n";

#[test]
fn fmt_lays_out_files_and_checks_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.p4");
    let name = path.to_str().unwrap();
    std::fs::write(&path, UGLY).unwrap();

    let check = run(&["switch", "fmt", "--check", name]);
    assert_eq!(
        (check.code, check.out.trim_end()),
        (Some(1), &*format!("{name}: not laid out")),
        "{}",
        check.err
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), UGLY);
    let write = run(&["switch", "fmt", name]);
    assert_eq!(write.code, Some(0), "{}", write.err);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), FAIR);
    assert_eq!(run(&["switch", "fmt", "--check", name]).code, Some(0));

    std::fs::write(&path, "control c() { /* no end\n").unwrap();
    let refused = run(&["switch", "fmt", name]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("a.p4:1: a string or a comment has no end"), "{}", refused.err);
    std::fs::write(&path, b"// \xff\n").unwrap();
    assert!(run(&["switch", "fmt", name]).err.contains("byte 3 is not UTF-8"));
    assert_eq!(std::fs::read(&path).unwrap(), b"// \xff\n");

    let mut child =
        barewire(&["switch", "fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(UGLY.as_bytes()).unwrap();
    assert_eq!(said(child.wait_with_output().unwrap()).out, FAIR);
}

#[test]
fn lsp_talks_over_standard_input_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.p4");
    std::fs::write(folder.path().join("types.p4"), "header H { bit<8> f; }\n").unwrap();
    let uri = format!("file://{}", path.display());
    let mut child =
        barewire(&["switch", "lsp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut send = |value: Value| {
        let body = value.to_string();
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        input.flush().unwrap();
    };
    let mut receive = || {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server ended");
            if line.trim().is_empty() {
                break;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        output.read_exact(&mut body).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}));
    assert_eq!(receive()["result"]["capabilities"]["documentSymbolProvider"], true);
    send(json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}));
    let text = "#include <core.p4>\n#include \"types.p4\"\nstruct S { H h; }\nconst bit<8> x = ;\n";
    let document = json!({"uri": uri, "languageId": "p4", "version": 1, "text": text});
    send(json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}));
    let published = receive();
    assert_eq!(published["params"]["uri"], uri);
    let list = published["params"]["diagnostics"].as_array().unwrap();
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(list[0]["range"]["start"], json!({"line": 3, "character": 17}));
    send(
        json!({"jsonrpc": "2.0", "id": 2, "method": "textDocument/documentSymbol", "params": {"textDocument": {"uri": uri}}}),
    );
    assert_eq!(receive()["result"][0]["name"], "S");
    send(json!({"jsonrpc": "2.0", "id": 3, "method": "shutdown"}));
    assert_eq!(receive()["id"], 3);
    send(json!({"jsonrpc": "2.0", "method": "exit"}));
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Neovim as the client: messages, hover, definition in an included file, completion.
#[test]
fn lsp_serves_neovim() {
    let Some(nvim) = have(Needs::Peers, program("nvim")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("include")).unwrap();
    std::fs::write(path("include/types.p4"), "header H {\n  bit<8> f;\n}\n").unwrap();
    let text = "#include <core.p4>\n#include \"types.p4\"\ncontrol c(inout H h) { apply { h.f = h.g; } }\n";
    std::fs::write(path("a.p4"), text).unwrap();
    let script = format!(
        r#"
local id = vim.lsp.start_client({{ name = "barewire", cmd = {{ "{barewire}", "switch", "lsp" }}, root_dir = "{folder}",
  init_options = {{ include = {{ "{folder}/include" }} }} }})
vim.cmd("edit {folder}/a.p4")
vim.lsp.buf_attach_client(0, id)
vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end)
local function ask(method, column)
  local at = {{ textDocument = {{ uri = vim.uri_from_bufnr(0) }}, position = {{ line = 2, character = column }} }}
  return vim.lsp.buf_request_sync(0, "textDocument/" .. method, at, 20000)
end
local said = {{ messages = {{}}, hover = ask("hover", 16), definition = ask("definition", 16), completion = ask("completion", 33) }}
for _, message in ipairs(vim.diagnostic.get(0)) do table.insert(said.messages, message.message) end
vim.fn.writefile({{ vim.fn.json_encode(said) }}, "{folder}/said.json")
vim.cmd("qa!")
"#,
        barewire = env!("CARGO_BIN_EXE_barewire"),
        folder = folder.path().display(),
    );
    std::fs::write(path("ask.lua"), script).unwrap();
    let luafile = format!("luafile {}", path("ask.lua"));
    let mut editor = std::process::Command::new(nvim);
    editor.args(["--headless", "--clean", "-c", &luafile, "-c", "qa!"]).env("HOME", folder.path());
    let output = editor.stdin(Stdio::null()).output().unwrap();
    let said = std::fs::read_to_string(path("said.json"))
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["messages"].as_array().map(Vec::len), Some(1), "{said}");
    assert!(said["messages"][0].as_str().unwrap().contains("has no field `g`"), "{said}");
    let of = |method: &str| said[method][0]["result"].clone();
    assert!(of("hover")["contents"]["value"].as_str().unwrap().contains("bit<8> f;"), "{said}");
    assert!(of("definition")["uri"].as_str().unwrap().ends_with("/include/types.p4"), "{said}");
    let labels: Vec<Value> =
        of("completion").as_array().unwrap().iter().map(|i| i["label"].clone()).collect();
    assert!(labels.contains(&json!("f")) && labels.contains(&json!("isValid")), "{labels:?}");
}

#[test]
fn check_judges_source() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.p4"), folder.path().join("bad.p4"));
    let core = "#include <core.p4>\ncontrol C(inout bit<8> x);\npackage P(C c);\n";
    let control = |body: &str| {
        format!("{core}control c(inout bit<8> x) {{\n    apply {{\n{body}    }}\n}}\nP(c()) main;\n")
    };
    std::fs::write(&good, control("        bit<8> unused;\n        x = WIDE;\n")).unwrap();
    std::fs::write(&bad, control("        x = y;\n        x = 16w1;\n        x = x + true;\n")).unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());

    let accepted = run(&["switch", "check", "-D", "WIDE=8w1", good]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.err);
    assert!(accepted.err.contains("warning[unused]"), "{}", accepted.err);
    let quiet = run(&["switch", "check", "-D", "WIDE=8w1", "--no-warn", "unused", good]);
    assert!(quiet.code == Some(0) && !quiet.err.contains("warning"), "{}", quiet.err);
    assert_eq!(run(&["switch", "check", good]).code, Some(1), "WIDE is not defined");
    let other = run(&["switch", "check", "-D", "WIDE=8w1", "--arch", "psa", good]);
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("not that of psa"), "{}", other.err);

    let refused = run(&["switch", "check", bad]);
    assert_eq!(refused.code, Some(1));
    for text in
        ["bad.p4:6:13", "`y` is not declared", "cannot assign `bit<16>` to `bit<8>`", "`bit<8>` and `bool`"]
    {
        assert!(refused.err.contains(text), "{text}: {}", refused.err);
    }
    let refused = run(&["switch", "check", "--json", "--no-warn", "all", bad]);
    assert_eq!(refused.code, Some(1));
    let list: Value = serde_json::from_str(&refused.out).unwrap();
    let found: Vec<(&str, u64)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (d["code"].as_str().unwrap(), d["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, [("not-found", 6), ("type-error", 7), ("type-error", 8)]);
}

#[test]
fn compile_writes_p4info_and_check_switches_warnings_off() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, text, binary) = (at("a.p4"), at("a.p4info.txtpb"), at("a.p4info.bin"));
    std::fs::write(&source, PROGRAM).unwrap();
    let made = run(&["switch", "compile", &source, "--p4info", &format!("{text},{binary}")]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let written = std::fs::read_to_string(&text).unwrap();
    // An id is the kind of the object and a hash of its name: NoAction has the same one in every program.
    for part in [
        "arch: \"v1model\"",
        "name: \"MyIngress.inner.t\"",
        "alias: \"t\"",
        "name: \"h.f\"",
        "id: 21257015",
        "id: 33554439",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
    let info = barewire_p4_info::text::parse(&written).unwrap();
    assert_eq!(prost::Message::encode_to_vec(&info), std::fs::read(&binary).unwrap());

    assert_eq!(run(&["switch", "compile", &source, "--p4info", &at("a.json")]).code, Some(2));
    std::fs::write(&source, PROGRAM.replace("bit<8> f;", "bit<8> g;")).unwrap();
    let refused = run(&["switch", "compile", &source, "--p4info", &at("b.txtpb")]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("`f`") && !folder.path().join("b.txtpb").exists(), "{}", refused.err);

    std::fs::write(&source, PROGRAM.replace("apply { inner", "action idle() {} apply { inner")).unwrap();
    let warned = run(&["switch", "check", &source]);
    assert!(warned.err.contains("[unused]"), "{}", warned.err);
    assert_eq!(run(&["switch", "check", "-W", "no-unused", &source]).err, "");
    let wrong = run(&["switch", "check", "-W", "no-unusde", &source]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("unknown warning `unusde`"), "{}", wrong.err);
}

#[test]
fn compile_writes_json_that_runs_and_answers_as_p4c() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, json) = (at("a.p4"), at("a.json"));
    std::fs::write(&source, PROGRAM).unwrap();
    let stf = at("a.stf");
    std::fs::write(&stf, "add MyIngress.inner.t h.f:1 MyIngress.inner.set(to:7)\npacket 1 01\nexpect 0 07$\npacket 1 02\nexpect 0 02$\n").unwrap();

    let made =
        run(&["switch", "compile", &source, "-o", &json, "-b", "bmv2", "--std", "p4-16", "--Wdisable"]);
    assert_eq!((made.code, &*made.err), (Some(0), ""));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(document["pipelines"][0]["tables"][0]["name"], "MyIngress.inner.t");
    for program in [&source, &json] {
        let tested = run(&["switch", "test", program, &stf]);
        assert_eq!(tested.code, Some(0), "{program}: {}{}", tested.out, tested.err);
    }
    // Into a folder, under the program's name.
    let out = at("out");
    std::fs::create_dir(&out).unwrap();
    assert_eq!(run(&["switch", "compile", &source, "-o", &out]).code, Some(0));
    assert_eq!(std::fs::read(folder.path().join("out/a.json")).unwrap(), std::fs::read(&json).unwrap());

    let other = run(&["switch", "compile", &source, "-o", &at("b.json"), "--target", "psa"]);
    assert!(other.code == Some(1) && other.err.contains("not for psa"), "{}", other.err);
    assert!(!folder.path().join("b.json").exists());
    assert_eq!(run(&["switch", "compile", &source]).code, Some(2), "nothing to write");
    assert_eq!(run(&["switch", "compile", &source, "-o", &json, "--std", "p4-14"]).code, Some(2));

    // Links to the binary are the compilers they are named after.
    let linked = |name: &str, words: &[&str]| {
        let link = folder.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_barewire"), &link).unwrap();
        }
        said(std::process::Command::new(&link).args(words).current_dir(folder.path()).output().unwrap())
    };
    let info = at("build/a.p4info.txtpb");
    let words = ["--p4v", "16", "--p4runtime-files", &info, "-o", &at("build/a.json"), "a.p4"];
    let made = linked("p4c-bm2-ss", &words);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert_eq!(std::fs::read(folder.path().join("build/a.json")).unwrap(), std::fs::read(&json).unwrap());
    assert!(std::fs::read_to_string(&info).unwrap().contains("MyIngress.inner.t"));
    let made = linked("p4c", &["--target", "bmv2", "--arch", "v1model", "-o", "driver", "a.p4"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(folder.path().join("driver/a.json").exists());
    let refused = linked("p4c", &["--target", "ebpf", "a.p4"]);
    assert!(refused.code == Some(2) && refused.err.contains("ebpf"), "{}", refused.err);
    // What the real switch says of our JSON.
    match std::process::Command::new("simple_switch").arg("--version").output() {
        Err(_) => println!("SKIPPED: simple_switch is not installed, so our JSON is not loaded into it"),
        Ok(_) => loads_in_the_real_switch(&json),
    }
}

/// Starts the real switch with a program and packets in files, and waits for its end of initialisation.
fn loads_in_the_real_switch(json: &str) {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--use-files", "0", "-i", "0@p", "--log-console", "--thrift-port", "19099", json];
    let mut child = std::process::Command::new("simple_switch")
        .args(words)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.is_ok_and(|line| line.contains("Adding interface")));
    let _ = child.kill();
    let _ = child.wait();
    assert!(ready, "the switch ended before it had read the program");
}

#[test]
fn a_running_program_follows_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.p4");
    let part = folder.path().join("part.p4");
    std::fs::write(&source, format!("#include \"part.p4\"\n{PROGRAM}")).unwrap();
    std::fs::write(&part, "// one\n").unwrap();
    let name = format!("watch-{}", std::process::id());
    let words = ["switch", "run", source.to_str().unwrap(), "--watch", "--thrift-port", "0", "--name", &name];
    let mut child = barewire(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = |text: &str| {
        let mut seen = Vec::new();
        while let Some(Ok(line)) = lines.next() {
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(text)) {
                return seen;
            }
        }
        panic!("the switch ended before it said `{text}`: {seen:?}");
    };
    until("forwarding");
    std::fs::write(&part, "// one and a half\n").unwrap();
    until("the new program runs");
    std::fs::write(&source, PROGRAM.replace("h.f = to", "h.g = to")).unwrap();
    let said = until("the old program keeps running").join("\n");
    assert!(said.contains("`g`"), "{said}");
    std::fs::write(&source, PROGRAM).unwrap();
    until("the new program runs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn check_tells_what_cannot_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.p4");
    // Declared by the program, and nobody has it.
    let text = PROGRAM.replace("struct M { }", "struct M { } extern bit<8> of_ours(in bit<8> x);");
    let body = "apply { h.f = of_ours(h.f); inner.apply(h); }";
    std::fs::write(&source, text.replace("apply { inner.apply(h); }", body)).unwrap();
    let name = source.to_str().unwrap();
    let told = run(&["switch", "check", name]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.err.contains("warning[cannot-run]") && told.err.contains("of_ours"), "{}", told.err);
    assert_eq!(run(&["switch", "check", "-W", "no-cannot-run", name]).err, "");
    assert_eq!(run(&["switch", "test", name, name]).code, Some(1));
}

const PROGRAM: &str = "#include <v1model.p4>
header H { bit<8> f; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control Inner(inout H h) {
    action set(bit<8> to) { h.f = to; }
    @id(7) table t { key = { h.f: exact; } actions = { set; } }
    apply { t.apply(); }
}
control MyIngress(inout H h, inout M m, inout standard_metadata_t s) { Inner() inner; apply { inner.apply(h); } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), MyIngress(), E(), V(), D()) main;
";

/// Commands that name a program's JSON work where a user makes it; where not, they say how.
#[test]
fn json_that_is_not_made_yet_is_told_how_to_make() {
    let folder = tempfile::tempdir().unwrap();
    let (source, json) = (folder.path().join("router.p4"), folder.path().join("router.json"));
    std::fs::write(&source, include_str!("../../../../programs/simple_router.p4")).unwrap();
    let (source, json) = (source.to_str().unwrap(), json.to_str().unwrap());
    let refused = run(&["switch", "check", json]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    let hint = format!("barewire switch compile {source} -o {json}");
    assert!(refused.err.contains(&hint), "{}", refused.err);
    assert_eq!(run(&["switch", "compile", source, "-o", json]).code, Some(0));
    let good = run(&["switch", "check", json]);
    assert!(good.code == Some(0) && good.out.contains("3 tables"), "{} {}", good.out, good.err);
}
