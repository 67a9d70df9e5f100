//! `barewire key`, and two daemons whose configurations make them encrypt.

#[allow(dead_code, reason = "its processes run beside the test")]
mod common;

use barewire_testing::Running;
use common::{barewire, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A process, when it has said that it is ready.
fn started(args: &[&str], ready: &str) -> Running {
    Running::start_until(&mut barewire(args), ready)
}

fn new_key(path: &Path) -> String {
    let made = run(&["key", "new", "--out", path.to_str().unwrap()]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    made.out.trim().to_owned()
}

#[test]
fn keys_are_made_shown_and_never_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.key");
    let file = path.to_str().unwrap();
    let public = new_key(&path);
    assert_eq!(public.len(), 64);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run(&["key", "show", file]).out.trim(), public);
    let private = fs::read_to_string(&path).unwrap().lines().nth(1).unwrap().to_owned();
    assert_ne!(private, public);
    let again = run(&["key", "new", "--out", file]);
    assert!(again.code == Some(1) && again.err.contains("never overwritten"), "{}", again.err);
    assert_eq!(run(&["key", "show", file]).out.trim(), public, "it is as it was");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let open = run(&["key", "show", file]);
    assert!(
        open.code == Some(1) && open.err.contains("0644") && open.err.contains("chmod 600"),
        "{}",
        open.err
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    let config = dir.path().join("barewire.toml");
    let toml = config.to_str().unwrap();
    let base = "[interface]\nport = \"mem:x\"\nipv4 = [\"10.0.0.1/24\"]\n";
    fs::write(&config, base).unwrap();
    let trust = |name: &str, address: &str, key: &str| {
        run(&["key", "trust", "--config", toml, "--name", name, "--address", address, key])
    };
    let other = new_key(&dir.path().join("b.key"));
    let none = trust("b", "10.0.0.2", &other);
    assert!(none.code == Some(2) && none.err.contains("[security]"), "{}", none.err);
    fs::write(&config, format!("{base}[security]\nkey = \"a.key\"")).unwrap();
    assert_eq!(trust("b", "10.0.0.2", &other).code, Some(0));
    for (name, address, key) in [
        ("b", "10.0.0.3", &public[..]),
        ("c", "10.0.0.3", &other),
        ("c", "nowhere", &other),
        ("c", "10.0.0.3", "abc"),
    ] {
        let before = fs::read_to_string(&config).unwrap();
        let refused = trust(name, address, key);
        assert_eq!(refused.code, Some(2), "{name} {address} {key}: {}", refused.err);
        assert_eq!(fs::read_to_string(&config).unwrap(), before);
    }
    let check = run(&["up", "--check", "--config", toml]);
    assert_eq!(check.code, Some(0), "{}", check.err);
    for said in [check.out, check.err, again.err, open.err] {
        assert!(!said.contains(&private), "{said}");
    }
}

/// Two daemons in processes of their own, made by the commands of the manual.
#[test]
fn a_ping_crosses_between_daemons_that_require_encryption() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let keys = ["a", "b"].map(|host| new_key(&dir.path().join(format!("{host}.key"))));
    for (i, (host, peer)) in [("a", "b"), ("b", "a")].into_iter().enumerate() {
        let text = format!(
            "[daemon]\nname = \"key-{}-{host}\"\nsocket = {:?}\n[interface]\nport = \"unix:{},{}\"\nipv4 = [\"10.0.0.{}/24\"]\n\
             [security]\nkey = \"{host}.key\"\nrequire = true\n",
            std::process::id(),
            at(&format!("{host}.ctl")),
            at(&format!("{host}.sock")),
            at(&format!("{peer}.sock")),
            i + 1,
        );
        fs::write(at(&format!("{host}.toml")), text).unwrap();
        let address = format!("10.0.0.{}", 2 - i);
        let config = at(&format!("{host}.toml"));
        let trusted =
            run(&["key", "trust", "--config", &config, "--name", peer, "--address", &address, &keys[1 - i]]);
        assert_eq!(trusted.code, Some(0), "{}", trusted.err);
    }
    let _daemons =
        ["a", "b"].map(|host| started(&["up", "--config", &at(&format!("{host}.toml"))], "serving"));
    let _echo = started(&["msg", "listen", "888", "--echo", "--socket", &at("b.ctl")], "listening");
    let ping = [
        "msg",
        "ping",
        "10.0.0.2:888",
        "--count",
        "20",
        "--size",
        "3000",
        "--json",
        "--socket",
        &at("a.ctl"),
    ];
    let pinged = run(&ping);
    assert_eq!(pinged.code, Some(0), "{}", pinged.err);
    let row: serde_json::Value = serde_json::from_str(&pinged.out).unwrap();
    assert_eq!((&row["samples"], &row["wrong"]), (&20.into(), &0.into()), "{row}");
    assert!(pinged.err.contains("encrypted with b"), "{}", pinged.err);
}
