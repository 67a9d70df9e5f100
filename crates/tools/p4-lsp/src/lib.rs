//! A language server for P4-16 source: what editors ask, answered by `barewire-p4-source`.
//!
//! ```text
//! editor -> lsp_server::Connection -> server (this file: requests) -> documents: texts that are open, over the file system
//!                                  <- diagnostics after each change; symbols, definition, hover, completion and layout on request
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod documents;
mod members;
mod names;
mod places;
mod symbols;

use std::error::Error;

use barewire_p4_source::{MacroOption, Options, Resolver, fmt};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    CompletionParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DocumentFormattingParams, DocumentSymbolParams, GotoDefinitionParams, HoverParams,
    PublishDiagnosticsParams, TextEdit, Uri,
};
use serde_json::{Value, from_value, json, to_value};

use documents::Documents;

/// `TextDocumentSyncKind.Full`: the whole text with each change.
const TEXT_FULL: u8 = 1;

/// What ends a server before the editor asks it to.
pub type ServeError = Box<dyn Error + Send + Sync>;

/// Serves one editor over standard input and output, until it says that it is done.
///
/// # Errors
/// The editor breaks the protocol, or goes away.
pub fn serve_standard(files: &dyn Resolver, options: &Options) -> Result<(), ServeError> {
    let (connection, threads) = Connection::stdio();
    let result = serve(&connection, files, options);
    // The threads end with the connection.
    drop(connection);
    result?;
    threads.join()?;
    Ok(())
}

/// Serves one editor. `options` are those of the command line; the editor can add `include` and `define`, lists of strings,
/// in its initialization options.
///
/// # Errors
/// As [`serve_standard`].
pub fn serve(connection: &Connection, files: &dyn Resolver, options: &Options) -> Result<(), ServeError> {
    // As JSON: the protocol's crate knows hundreds of capabilities of clients and servers, which are much code for a few words.
    let capabilities = json!({
        "textDocumentSync": TEXT_FULL,
        "documentSymbolProvider": true,
        "documentFormattingProvider": true,
        "completionProvider": { "triggerCharacters": ["."] },
        "definitionProvider": true,
        "hoverProvider": true,
    });
    let params = connection.initialize(capabilities)?;
    let asked = params.get("initializationOptions");
    let mut options = options.clone();
    for word in strings(asked, "include") {
        options.include.push(word);
    }
    for word in strings(asked, "define") {
        options.macros.push(MacroOption::Define(word));
    }
    let mut documents = Documents::new(files, options);
    for message in &connection.receiver {
        match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request)? {
                    break;
                }
                connection.sender.send(Message::Response(answer(&documents, request)))?;
            }
            Message::Notification(notification) => {
                for publish in change(&mut documents, notification)? {
                    let method = "textDocument/publishDiagnostics".to_owned();
                    connection.sender.send(Message::Notification(Notification::new(method, publish)))?;
                }
            }
            Message::Response(_) => {}
        }
    }
    Ok(())
}

fn strings(value: Option<&Value>, key: &str) -> Vec<String> {
    let list = value.and_then(|v| v.get(key)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A document changed: what is now wrong with it.
fn change(
    documents: &mut Documents,
    notification: Notification,
) -> Result<Vec<PublishDiagnosticsParams>, ServeError> {
    let uri: Uri = match notification.method.as_str() {
        "textDocument/didOpen" => {
            let params: DidOpenTextDocumentParams = from_value(notification.params)?;
            documents.put(&params.text_document.uri, params.text_document.text);
            params.text_document.uri
        }
        "textDocument/didChange" => {
            let params: DidChangeTextDocumentParams = from_value(notification.params)?;
            // The whole text each time, the last one counts.
            if let Some(last) = params.content_changes.into_iter().next_back() {
                documents.put(&params.text_document.uri, last.text);
            }
            params.text_document.uri
        }
        "textDocument/didClose" => {
            let params: DidCloseTextDocumentParams = from_value(notification.params)?;
            documents.remove(&params.text_document.uri);
            let uri = params.text_document.uri;
            return Ok(vec![PublishDiagnosticsParams { uri, diagnostics: Vec::new(), version: None }]);
        }
        _ => return Ok(Vec::new()),
    };
    let diagnostics = documents.read(&uri).map_or(Vec::new(), |read| read.messages());
    Ok(vec![PublishDiagnosticsParams { uri, diagnostics, version: None }])
}

fn answer(documents: &Documents, request: Request) -> Response {
    let id = request.id.clone();
    let result = match request.method.as_str() {
        "textDocument/documentSymbol" => from_value(request.params).map(|p: DocumentSymbolParams| {
            to_value(documents.read(&p.text_document.uri).map(|read| symbols::all(&read)))
        }),
        "textDocument/formatting" => from_value(request.params).map(|p: DocumentFormattingParams| {
            // What cannot be laid out stays as it is; the diagnostics say why.
            to_value(documents.text(&p.text_document.uri).and_then(|text| {
                let new_text = fmt::format(text).ok()?;
                let range = places::whole(text);
                Some(if new_text == text { Vec::new() } else { vec![TextEdit { range, new_text }] })
            }))
        }),
        "textDocument/definition" => from_value(request.params).map(|p: GotoDefinitionParams| {
            let at = p.text_document_position_params;
            to_value(
                documents.read(&at.text_document.uri).and_then(|read| names::definition(&read, at.position)),
            )
        }),
        "textDocument/completion" => from_value(request.params).map(|p: CompletionParams| {
            let at = p.text_document_position;
            to_value(documents.read(&at.text_document.uri).map(|read| names::completion(&read, at.position)))
        }),
        "textDocument/hover" => from_value(request.params).map(|p: HoverParams| {
            let at = p.text_document_position_params;
            to_value(documents.read(&at.text_document.uri).and_then(|read| names::hover(&read, at.position)))
        }),
        method => {
            return Response::new_err(
                id,
                ErrorCode::MethodNotFound as i32,
                format!("{method} is not known here"),
            );
        }
    };
    match result.and_then(|value| value) {
        Ok(value) => Response::new_ok(id, value),
        Err(error) => Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string()),
    }
}
