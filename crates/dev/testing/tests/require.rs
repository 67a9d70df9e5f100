//! What a skipped test prints and when it fails, by running one in a process of its own; and the variable of this very run.

use barewire_testing::{Needs, REQUIRE, have, program, shared, skip, skip_part};
use std::process::Command;

/// A skipped test with this value of the variable: whether it passed, and what it printed.
fn child(test: &str, required: Option<&str>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads", "2"]).env_remove(REQUIRE);
    if let Some(words) = required {
        command.env(REQUIRE, words);
    }
    let out = command.output().unwrap();
    let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (out.status.success(), text)
}

#[test]
#[ignore = "the child of other tests"]
fn lacks_a_peer() {
    skip(Needs::Peers, "no sshd");
}

#[test]
#[ignore = "the child of other tests"]
fn lacks_a_part() {
    skip_part(Needs::Tools, "no sanitizers");
}

#[test]
fn a_skip_is_a_line_that_is_counted() {
    for required in [None, Some(""), Some("root, xdp")] {
        let (passed, text) = child("lacks_a_peer", required);
        let line = "SKIPPED: lacks_a_peer: no sshd (`peers`)";
        assert!(passed && text.lines().any(|l| l == line), "{required:?}: {text}");
    }
    let (passed, text) = child("lacks_a_part", Some("root,peers"));
    assert!(passed && text.contains("SKIPPED IN PART: lacks_a_part: no sanitizers (`tools`)"), "{text}");
    assert!(!text.contains("SKIPPED: "), "a part is not counted: {text}");
}

#[test]
fn what_is_required_fails_and_an_unknown_word_does() {
    let (passed, text) = child("lacks_a_peer", Some("root,peers"));
    let told = "BAREWIRE_REQUIRE names `peers`, and this test lacks it: no sshd";
    assert!(!passed && text.contains(told) && !text.contains("SKIPPED: "), "{text}");
    let (passed, _) = child("lacks_a_part", Some("tools"));
    assert!(!passed);
    let (passed, text) = child("lacks_a_peer", Some("rooot"));
    assert!(!passed && text.contains("`rooot` is not known; known: root, xdp,"), "{text}");
}

/// Where nothing is lacking nobody reads it: a slip in it would pass unseen.
#[test]
fn the_words_of_this_run_are_known() {
    let words = std::env::var(REQUIRE).unwrap_or_default();
    if let Err(unknown) = Needs::parse_list(&words) {
        panic!("{unknown}");
    }
}

#[test]
fn programs_and_files_are_found_where_they_are() {
    assert!(program("sh").is_ok_and(|path| path.is_file()));
    assert_eq!(program("no-such-program"), Err("`no-such-program` is not installed".to_owned()));
    assert_eq!(have(Needs::Rxe, Ok::<_, String>(7)), Some(7));
}

#[test]
#[ignore = "the child of another test"]
fn lacks_shared_data() {
    assert_eq!(shared("no/such/file"), None);
}

#[test]
fn a_file_that_is_not_shared_is_a_skip() {
    let (passed, text) = child("lacks_shared_data", None);
    let line = "SKIPPED: lacks_shared_data: no `shared/no/such/file` beside the repository (`shared`)";
    assert!(passed && text.lines().any(|l| l == line), "{text}");
    assert!(!child("lacks_shared_data", Some("shared")).0);
}
