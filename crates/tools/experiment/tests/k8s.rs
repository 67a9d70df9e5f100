//! JobSet manifests against the schema of the fields that they use.

use barewire_experiment::file;
use barewire_experiment::launcher::k8s::{K8sError, K8sOptions, manifests, yaml};
use barewire_experiment::plan::Plan;
use serde_json::{Value, json};
use std::path::Path;

fn plan(rest: &str) -> Plan {
    let text = format!("name = \"rc_threads\"\n{rest}");
    file::parse(&text, "x.toml", Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

const TWO_ROLES: &str = r#"
[method]
runs = 2
seconds = 3
timeout_s = 60
[sweep]
threads = [1, 2]
[[role]]
name = "server"
count = 1
command = ["barewire", "rc", "serve", "--port", "packet:{host.interface}"]
[[role]]
name = "client"
count = 3
command = ["{self}", "rc", "load", "--peer", "{server.address}", "--threads", "{threads}", "--id", "{host.index}", "$(x)"]
collect = "json"
[environment]
LEVEL = "1"
API_TOKEN = "hunter2"
"#;

/// What is wrong with `value` by the schema: the part of JSON Schema (2020-12) that ours uses, and nothing else passes.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let mut fault = |why: String| found.push(format!("{at}: {why}"));
    let rules = schema.as_object().expect("a schema is an object");
    if let Some(target) = rules.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').expect("references stay in the file");
        return faults(root, root.pointer(target).expect("what is referred to is there"), value, at, found);
    }
    for (rule, wanted) in rules {
        let good = match rule.as_str() {
            "title" | "$defs" | "items" | "properties" | "additionalProperties" => true,
            "type" => match wanted.as_str() {
                Some("object") => value.is_object(),
                Some("array") => value.is_array(),
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("integer") => value.is_u64() || value.is_i64(),
                other => panic!("type {other:?}"),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "required" => {
                wanted.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some())
            }
            "minimum" => value.as_i64() >= wanted.as_i64(),
            "minItems" => value.as_array().is_some_and(|all| all.len() as u64 >= wanted.as_u64().unwrap()),
            "minLength" => {
                value.as_str().is_some_and(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap())
            }
            "maxLength" => {
                value.as_str().is_some_and(|text| text.chars().count() as u64 <= wanted.as_u64().unwrap())
            }
            "pattern" => {
                let pattern = regex_lite::Regex::new(wanted.as_str().unwrap()).unwrap();
                value.as_str().is_some_and(|text| pattern.is_match(text))
            }
            other => panic!("rule {other}"),
        };
        if !good {
            fault(format!("{value} against {rule} {wanted}"));
        }
    }
    if let (Some(items), Some(all)) = (rules.get("items"), value.as_array()) {
        for (n, item) in all.iter().enumerate() {
            faults(root, items, item, &format!("{at}[{n}]"), found);
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let here = format!("{at}.{key}");
        match (rules.get("properties").and_then(|p| p.get(key)), rules.get("additionalProperties")) {
            (Some(schema), _) => faults(root, schema, inner, &here, found),
            (None, Some(Value::Bool(false))) => found.push(format!("{here}: no such field")),
            (None, Some(schema @ Value::Object(_))) => faults(root, schema, inner, &here, found),
            (None, _) => {}
        }
    }
}

fn checked(value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(include_str!("jobset.schema.json")).unwrap();
    let mut found = Vec::new();
    faults(&schema, &schema, value, "$", &mut found);
    found
}

#[test]
fn the_checker_finds_faults() {
    let options = K8sOptions::default();
    let good = manifests(&plan(TWO_ROLES), &options).unwrap().remove(0);
    for (path, value, said) in [
        ("/kind", json!("Job"), "$.kind: \"Job\" against enum"),
        ("/metadata/name", json!("Upper"), "$.metadata.name: \"Upper\" against pattern"),
        ("/spec/replicatedJobs", json!([]), "minItems"),
        ("/spec/replicatedJobs/0/replicas", json!("1"), "type \"integer\""),
        ("/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy", json!("Always"), "enum"),
        ("/spec/network", json!({ "subdomian": "x" }), "$.spec.network.subdomian: no such field"),
        ("/spec/successPolicy", json!({}), "required"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let found = checked(&bad);
        assert!(found.iter().any(|fault| fault.contains(said)), "{path}: {found:?}");
    }
}

#[test]
fn every_cell_and_run_is_a_jobset_that_fits_the_schema() {
    let full = K8sOptions {
        image: "registry/barewire:1".into(),
        namespace: Some("lab".into()),
        node_selector: [("pool".to_owned(), "fast".to_owned())].into(),
        capabilities: vec!["NET_RAW".into()],
        host_network: true,
        resources: [("cpu".to_owned(), "4".to_owned())].into(),
        ..K8sOptions::default()
    };
    for options in [K8sOptions::default(), full] {
        let all = manifests(&plan(TWO_ROLES), &options).unwrap();
        let names: Vec<&str> = all.iter().map(|set| set["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["rc-threads-c0-r1", "rc-threads-c1-r1", "rc-threads-c1-r2", "rc-threads-c0-r2"]);
        let suspended: Vec<&Value> = all.iter().map(|set| &set["spec"]["suspend"]).collect();
        assert_eq!(suspended, [&json!(false), &json!(true), &json!(true), &json!(true)]);
        for set in &all {
            assert_eq!(checked(set), Vec::<String>::new());
        }
        assert_eq!(yaml(&all).matches("---\n").count(), 4);
    }
}

#[test]
fn roles_names_placement_and_success_are_said() {
    let options = K8sOptions { namespace: Some("lab".into()), ..K8sOptions::default() };
    let set = manifests(&plan(TWO_ROLES), &options).unwrap().remove(1);
    let at = |path: &str| set.pointer(path).unwrap_or_else(|| panic!("{path}"));
    assert_eq!(
        at("/metadata/annotations"),
        &json!({ "alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname" })
    );
    assert_eq!(at("/spec/successPolicy"), &json!({ "operator": "All", "targetReplicatedJobs": ["client"] }));
    assert_eq!(at("/spec/network/subdomain"), "rc-threads-c1-r1");
    assert_eq!(at("/spec/replicatedJobs/0/replicas"), 1);
    assert_eq!(at("/spec/replicatedJobs/1/replicas"), 3);
    let container = "/spec/replicatedJobs/1/template/spec/template/spec/containers/0";
    let server = "rc-threads-c1-r1-server-0-0.rc-threads-c1-r1.lab.svc.cluster.local";
    let want = json!([
        "barewire",
        "rc",
        "load",
        "--peer",
        server,
        "--threads",
        "2",
        "--id",
        "$(BAREWIRE_HOST_INDEX)",
        "$$(x)"
    ]);
    assert_eq!(at(&format!("{container}/command")), &want);
    let key = json!({ "secretKeyRef": { "name": "rc-threads-secrets", "key": "API_TOKEN" } });
    assert_eq!(at(&format!("{container}/env/0")), &json!({ "name": "API_TOKEN", "valueFrom": key }));
    assert_eq!(at(&format!("{container}/env/1")), &json!({ "name": "LEVEL", "value": "1" }));
    assert_eq!(at(&format!("{container}/env/2/name")), "BAREWIRE_HOST_INDEX");
    assert!(!set.to_string().contains("hunter2"));
    assert_eq!(at("/spec/replicatedJobs/0/template/spec/activeDeadlineSeconds").as_u64(), Some(690));
}

#[test]
fn what_a_cluster_cannot_do_is_refused() {
    let refused = |rest: &str| manifests(&plan(rest), &K8sOptions::default()).unwrap_err();
    let role = |name: &str, more: &str| {
        format!("[[role]]\nname = \"{name}\"\ncommand = [\"x\", \"{{host.address}}\"]\ncount = 2\n{more}")
    };
    let e = refused(&role("client", ""));
    assert!(matches!(&e, K8sError::Placeholder { .. }) && e.to_string().contains("differs among"), "{e}");
    let long = format!("name = \"{}\"\n{}", "a".repeat(32), role(&"r".repeat(24), ""))
        .replace("{host.address}", "y");
    let plan = file::parse(&long, "x.toml", Path::new("")).unwrap_or_else(|e| panic!("{e}"));
    let e = manifests(&plan, &K8sOptions::default()).unwrap_err();
    assert!(matches!(&e, K8sError::Name { why, .. } if why.contains("longer than 57")), "{e}");
}
