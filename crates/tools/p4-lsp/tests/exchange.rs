//! An editor and the server, over the connection that the protocol's own crate has for tests.

use std::str::FromStr as _;

use barewire_p4_lsp::serve;
use barewire_p4_source::Options;
use barewire_p4_source::resolve::MemoryFiles;
use lsp_server::{Connection, Message, Notification, Request};
use lsp_types::Uri;
use serde_json::{Value, json};

struct Editor {
    connection: Connection,
    next: i32,
}

impl Editor {
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next.into();
        self.connection.sender.send(Message::Request(Request::new(id, method.to_owned(), params))).unwrap();
        match self.connection.receiver.recv().unwrap() {
            Message::Response(response) => match response.response_result {
                Ok(value) => value,
                Err(error) => json!({"error": error.code, "message": error.message}),
            },
            other => panic!("{other:?}"),
        }
    }

    fn tell(&self, method: &str, params: Value) {
        self.connection
            .sender
            .send(Message::Notification(Notification::new(method.to_owned(), params)))
            .unwrap();
    }

    fn diagnostics(&self) -> Vec<Value> {
        match self.connection.receiver.recv().unwrap() {
            Message::Notification(n) => {
                assert_eq!(n.method, "textDocument/publishDiagnostics");
                n.params["diagnostics"].as_array().unwrap().clone()
            }
            other => panic!("{other:?}"),
        }
    }
}

const TEXT: &str = "#include \"types.p4\"\ncontrol c(inout H h) {\n  action set(bit<8> n) { h.f = n; }\n  apply { bit<8> n = h.f; set(n); }\n}\n";

#[test]
fn a_session() {
    let (server, client) = Connection::memory();
    let files = MemoryFiles::one("/p/types.p4", "header H {\n  bit<8> f;\n}\n")
        .with("/inc/more.p4", "const bit<8> M = N;\n");
    let thread =
        std::thread::spawn(move || serve(&server, &files, &Options::default()).map_err(|e| e.to_string()));
    let mut editor = Editor { connection: client, next: 0 };
    let hello = editor.ask(
        "initialize",
        json!({"capabilities": {}, "initializationOptions": {"include": ["/inc"], "define": ["N=3"]}}),
    );
    assert_eq!(hello["capabilities"]["documentFormattingProvider"], true);
    editor.tell("initialized", json!({}));

    let uri = "file:///p/a%20b.p4";
    assert!(Uri::from_str(uri).is_ok());
    let document = json!({"uri": uri, "languageId": "p4", "version": 1, "text": TEXT});
    editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
    let none = editor.diagnostics();
    assert!(none.is_empty(), "{none:?}");

    let symbols = editor.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}}));
    assert_eq!(symbols[0]["name"], "c");
    assert_eq!(symbols[0]["children"][0]["name"], "set");
    assert_eq!(symbols[0]["children"][0]["selectionRange"]["start"], json!({"line": 2, "character": 9}));
    assert_eq!(symbols.as_array().unwrap().len(), 1);

    let at = |line: u32, character: u32| json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
    // `n` in the action is the parameter, in `apply` the variable; `f` is a field of the other file.
    let place = |v: &Value| (v["uri"].as_str().unwrap().to_owned(), v["range"]["start"].clone());
    let parameter = editor.ask("textDocument/definition", at(2, 31));
    assert_eq!(place(&parameter), (uri.to_owned(), json!({"line": 2, "character": 20})));
    let variable = editor.ask("textDocument/definition", at(3, 30));
    assert_eq!(place(&variable), (uri.to_owned(), json!({"line": 3, "character": 17})));
    let field = editor.ask("textDocument/definition", at(3, 23));
    assert_eq!(place(&field), ("file:///p/types.p4".to_owned(), json!({"line": 1, "character": 9})));
    let hover = editor.ask("textDocument/hover", at(1, 16));
    assert!(hover["contents"]["value"].as_str().unwrap().contains("header H {"), "{hover}");
    assert_eq!(editor.ask("textDocument/definition", at(3, 0)), Value::Null);

    let labels = |v: &Value| -> Vec<String> {
        v.as_array().unwrap().iter().map(|i| i["label"].as_str().unwrap().to_owned()).collect()
    };
    // Behind the dot of `h.f`, and at the start of `set(n)`.
    assert_eq!(
        labels(&editor.ask("textDocument/completion", at(3, 23))),
        ["f", "isValid", "setInvalid", "setValid"]
    );
    let names = labels(&editor.ask("textDocument/completion", at(3, 26)));
    assert!(["set", "n", "h", "H", "c", "if"].iter().all(|n| names.contains(&(*n).to_owned())), "{names:?}");
    assert!(!names.contains(&"f".to_owned()));

    let layout = editor.ask(
        "textDocument/formatting",
        json!({"textDocument": {"uri": uri}, "options": {"tabSize": 4, "insertSpaces": true}}),
    );
    assert!(
        layout[0]["newText"].as_str().unwrap().contains("\n    action set(bit<8> n) { h.f = n; }\n"),
        "{layout}"
    );
    assert_eq!(layout[0]["range"]["end"], json!({"line": 5, "character": 0}));

    // Errors of the document, and of a file that it includes: at the `#include`.
    let change = |version: i32, text: &str| json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": [{ "text": text }]});
    editor.tell(
        "textDocument/didChange",
        change(2, "#include <more.p4>\nconst bit<8> x = é 1;\nconst bit<8> y = ;\n"),
    );
    let list = editor.diagnostics();
    assert_eq!(list.len(), 2, "{list:?}");
    assert_eq!(
        list[0]["range"],
        json!({"start": {"line": 1, "character": 17}, "end": {"line": 1, "character": 18}})
    );
    assert_eq!(
        (&list[1]["range"]["start"]["line"], &list[1]["severity"], &list[1]["code"]),
        (&json!(2), &json!(1), &json!("syntax"))
    );
    editor.tell("textDocument/didChange", change(3, "#define N\n#include <more.p4>\n"));
    let list = editor.diagnostics();
    assert!(
        list.iter()
            .any(|d| d["range"]["start"]["line"] == 1 && d["relatedInformation"][0]["message"].is_string()),
        "{list:?}"
    );

    assert_eq!(editor.ask("no/such", json!({}))["error"], -32601);
    assert_eq!(editor.ask("textDocument/hover", json!({}))["error"], -32602);
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    assert!(editor.diagnostics().is_empty());
    assert_eq!(editor.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}})), Value::Null);

    assert_eq!(editor.ask("shutdown", Value::Null), Value::Null);
    editor.tell("exit", Value::Null);
    thread.join().unwrap().unwrap();
}

/// Statements that are not finished have what their types have.
#[test]
fn completion_behind_a_dot_follows_the_types() {
    let (server, client) = Connection::memory();
    let files = MemoryFiles::one("/p/types.p4", "header H {\n  bit<8> f;\n}\n");
    let thread =
        std::thread::spawn(move || serve(&server, &files, &Options::default()).map_err(|e| e.to_string()));
    let mut editor = Editor { connection: client, next: 0 };
    editor.ask("initialize", json!({"capabilities": {}}));
    editor.tell("initialized", json!({}));
    let mut version = 0;
    let mut offered = |statement: &str| -> Vec<String> {
        let text = format!(
            "#include <core.p4>\n#include \"types.p4\"\nenum E {{ one, two }}\ntypedef H G;\n\
             struct S {{ H h; G[2] s; }}\nextern X {{ X(); void go(); }}\n\
             control c(inout S a, inout bit<8> n) {{ X() x; table t {{ key = {{ n: exact; }} actions = {{ NoAction; }} }}\n\
             apply {{ {statement} }} }}\n"
        );
        let uri = format!("file:///p/{version}.p4");
        version += 1;
        let document = json!({"uri": uri, "languageId": "p4", "version": 1, "text": text});
        editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
        editor.diagnostics();
        let at = json!({"line": 7, "character": "apply { ".len() + statement.len()});
        let items =
            editor.ask("textDocument/completion", json!({"textDocument": {"uri": uri}, "position": at}));
        items.as_array().unwrap().iter().map(|i| i["label"].as_str().unwrap().to_owned()).collect()
    };
    let header = ["f", "isValid", "setInvalid", "setValid"];
    assert_eq!(offered("a."), ["h", "s"]);
    assert_eq!(offered("n = a.h."), header);
    assert_eq!(offered("n = a.h.f + a.s[n[0:0]].is"), header);
    assert_eq!(offered("a.s.last."), header);
    assert_eq!(offered("a.s."), ["last", "lastIndex", "next", "size", "pop_front", "push_front"]);
    assert_eq!(offered("E."), ["one", "two"]);
    assert_eq!(offered("x."), ["go"]);
    assert_eq!(offered("t."), ["apply"]);
    assert_eq!(offered("if (t.apply()."), ["action_run", "hit", "miss"]);
    assert!(offered("n = error.").contains(&"NoMatch".to_owned()));
    editor.ask("shutdown", Value::Null);
    editor.tell("exit", Value::Null);
    thread.join().unwrap().unwrap();
}
