//! An experiment for a Kubernetes cluster: one JobSet (`jobset.x-k8s.io/v1alpha2`) for each cell and run.
//!
//! Nothing here speaks to a cluster: [`manifests`] says what is to be created, [`yaml`] writes it. Roles are replicated jobs of one
//! pod each, each alone on its machine; their names in the network are known beforehand, so placeholders like `{server.address}` are
//! filled in here. A JobSet has succeeded when the jobs of the collecting roles have; the others then end. Rows are what their pods
//! print. Variables with secret names come from the Secret `EXPERIMENT-secrets`, which whoever applies the manifests makes.
//!
//! What a cluster does not give: `ready` texts are not waited for (roles start in order, each when the pods of the one before run),
//! and clocks are not compared.

mod emit;

use crate::plan::{Plan, Point, RoleHosts, RolePlan, Template};
use crate::redact::is_secret_name;
use barewire_text::nearest;
pub use emit::yaml;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest name in DNS (RFC 1123, section 2.1), which the names of pods are.
const NAME_MAX: usize = 63;
/// What makes a job's pods stay alone on a topology domain: the JobSet controller's annotation.
const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
/// How long a pod may take to be scheduled and to fetch its image, beside what it runs.
const START_ALLOWANCE: Duration = Duration::from_secs(600);

/// The program in the image.
const BINARY: &str = "barewire";
/// Where a container may write.
const SCRATCH: &str = "/tmp";
/// The interface that the container network interface gives every pod.
const INTERFACE: &str = "eth0";
/// A pod's place in its role, as its variables and its command have it.
const INDEX: &str = "$(BAREWIRE_HOST_INDEX)";

/// What a plan does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct K8sOptions {
    /// The container image, with `barewire` in its path.
    pub image: String,
    /// The namespace; `None`: that of who creates it.
    pub namespace: Option<String>,
    /// The label of nodes on which one pod at most runs. Default `kubernetes.io/hostname`: a machine each.
    pub topology: String,
    /// Labels that nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Linux capabilities, such as `NET_RAW`, `NET_ADMIN`, `IPC_LOCK`.
    pub capabilities: Vec<String>,
    /// Pods use the machine's own network; needed for its cards. The names of the network are the pods' all the same.
    pub host_network: bool,
    /// Resources, as requests and limits: `cpu`, `memory`, `hugepages-2Mi`. Whole CPUs are exclusive under the static CPU policy.
    pub resources: BTreeMap<String, String>,
    /// The cluster's domain.
    pub domain: String,
}

impl Default for K8sOptions {
    fn default() -> K8sOptions {
        K8sOptions {
            image: "barewire:latest".into(),
            namespace: None,
            topology: "kubernetes.io/hostname".into(),
            node_selector: BTreeMap::new(),
            capabilities: Vec::new(),
            host_network: false,
            resources: BTreeMap::new(),
            domain: "cluster.local".into(),
        }
    }
}

/// Why a plan is no JobSet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum K8sError {
    /// A role runs on the machine of who starts the experiment, or files are to be sent.
    #[error("{0}")]
    Unsuited(String),
    /// A placeholder has no value here.
    #[error("role {role}: no value for {{{name}}}{hint}")]
    Placeholder {
        /// Whose command.
        role: String,
        /// Its name.
        name: String,
        /// The nearest right word.
        hint: String,
    },
    /// A name that Kubernetes does not take.
    #[error("{what}: {why}")]
    Name {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
}

/// A role's pods.
struct Group<'a> {
    role: &'a RolePlan,
    /// Its name as a label of DNS.
    label: String,
    /// The hosts of the plan, where it names them.
    hosts: Vec<Option<&'a crate::launcher::HostSpec>>,
    /// The pods' names in the network.
    addresses: Vec<String>,
}

/// One JobSet for each cell and run, in the order in which the plan runs them. When there are several, all but the first are created
/// suspended.
///
/// # Errors
/// [`K8sError`].
pub fn manifests(plan: &Plan, options: &K8sOptions) -> Result<Vec<Value>, K8sError> {
    if !plan.sync.is_empty() {
        return Err(K8sError::Unsuited(
            "[[sync]]: pods get their files from the image; put them there".into(),
        ));
    }
    let order = plan.order();
    let one = order.len() == 1;
    let sets = order.iter().enumerate().map(|(at, &(cell, run))| {
        let name = if one { label(&plan.name) } else { format!("{}-c{cell}-r{run}", label(&plan.name)) };
        jobset(plan, options, &plan.points[cell], &name, run, at > 0)
    });
    sets.collect()
}

fn jobset(
    plan: &Plan,
    options: &K8sOptions,
    point: &Point,
    name: &str,
    run: u32,
    suspend: bool,
) -> Result<Value, K8sError> {
    let groups = groups(plan, point, name, options)?;
    let jobs: Result<Vec<Value>, K8sError> =
        groups.iter().map(|group| replicated_job(plan, options, point, run, group, &groups)).collect();
    let collecting: Vec<&str> = groups
        .iter()
        .filter(|group| group.role.collect.is_some())
        .map(|group| group.label.as_str())
        .collect();
    let mut success = json!({ "operator": "All" });
    if !collecting.is_empty() {
        success["targetReplicatedJobs"] = json!(collecting);
    }
    let mut metadata = json!({
        "name": name,
        "labels": { "app.kubernetes.io/name": "barewire", "app.kubernetes.io/instance": label(&plan.name) },
        "annotations": { EXCLUSIVE: options.topology },
    });
    if let Some(namespace) = &options.namespace {
        metadata["namespace"] = json!(namespace);
    }
    Ok(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "suspend": suspend,
            // Names resolve before a pod is ready: peers wait for each other by connecting.
            "network": { "enableDNSHostnames": true, "subdomain": name, "publishNotReadyAddresses": true },
            "startupPolicy": { "startupPolicyOrder": "InOrder" },
            "successPolicy": success,
            // A run that failed is no measurement, and a second try would hide it.
            "failurePolicy": { "maxRestarts": 0 },
            "replicatedJobs": jobs?,
        },
    }))
}

/// Which role has which pods.
fn groups<'a>(
    plan: &'a Plan,
    point: &Point,
    name: &str,
    options: &K8sOptions,
) -> Result<Vec<Group<'a>>, K8sError> {
    let hosts: Vec<_> = plan.hosts.iter().filter(|host| !plan.black.contains(&host.name)).collect();
    let named: BTreeSet<&str> = plan
        .roles
        .iter()
        .flat_map(|role| match &role.hosts {
            RoleHosts::Named(names) => names.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        })
        .collect();
    let mut free = hosts.iter().copied().filter(|host| !named.contains(host.name.as_str()));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for role in &plan.roles {
        let counted = role.count.as_ref().map(|count| count.at(point));
        let hosts: Vec<Option<&crate::launcher::HostSpec>> = match &role.hosts {
            RoleHosts::Here => {
                let why = format!(
                    "role {} runs on the machine that starts the experiment: a cluster has none",
                    role.name
                );
                return Err(K8sError::Unsuited(why));
            }
            RoleHosts::Named(names) => {
                let kept = names.iter().filter(|name| !plan.black.contains(*name));
                let spec = |name: &String| hosts.iter().copied().find(|host| host.name == *name);
                kept.take(counted.unwrap_or(usize::MAX)).map(spec).collect()
            }
            RoleHosts::Free => {
                let some = free.by_ref().take(counted.unwrap_or(1)).map(Some);
                padded(some.collect(), if plan.hosts.is_empty() { counted.unwrap_or(1) } else { 0 })
            }
            RoleHosts::Rest => padded(free.by_ref().map(Some).collect(), usize::from(plan.hosts.is_empty())),
        };
        if hosts.is_empty() {
            return Err(K8sError::Unsuited(format!("role {} has no host", role.name)));
        }
        let job = label(&role.name);
        if groups.iter().any(|group| group.label == job) {
            let why =
                "two roles have the same name as labels of DNS, which know small letters, digits and `-`";
            return Err(K8sError::Name { what: format!("role {}", role.name), why: why.into() });
        }
        // The name of pod P of job J of replicated job R of JobSet S: S-R-J-P.
        let pods: Vec<String> = (0..hosts.len()).map(|at| format!("{name}-{job}-{at}-0")).collect();
        if let Some(long) = pods.iter().find(|pod| pod.len() > NAME_MAX - 6) {
            let why = format!(
                "longer than {} characters: a shorter name of the experiment or the role",
                NAME_MAX - 6
            );
            return Err(K8sError::Name { what: long.clone(), why });
        }
        let namespace = options.namespace.as_deref();
        let full = |pod: &String| match namespace {
            Some(namespace) => format!("{pod}.{name}.{namespace}.svc.{}", options.domain),
            // Which one is not known here; the pod's own search list completes it.
            None => format!("{pod}.{name}"),
        };
        let addresses = pods.iter().map(full).collect();
        groups.push(Group { role, label: job, hosts, addresses });
    }
    Ok(groups)
}

fn padded<T>(mut all: Vec<Option<T>>, least: usize) -> Vec<Option<T>> {
    while all.len() < least {
        all.push(None);
    }
    all
}

fn replicated_job(
    plan: &Plan,
    options: &K8sOptions,
    point: &Point,
    run: u32,
    group: &Group<'_>,
    groups: &[Group<'_>],
) -> Result<Value, K8sError> {
    let role = group.role;
    let fill = |template: &Template| {
        template.fill(|name| {
            value(plan, point, run, group, groups, name)
                .ok_or_else(|| unknown(plan, point, group, groups, name))
        })
    };
    let mut command: Vec<String> = Vec::new();
    for word in &role.command {
        let text = fill(word)?;
        if !(text.is_empty() && word.is_one_placeholder()) {
            command.push(text);
        }
    }
    let mut variables: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in plan.environment.iter().chain(&role.environment) {
        variables.insert(key, value);
    }
    let mut env: Vec<Value> = variables
        .iter()
        .map(|(key, value)| match is_secret_name(key) {
            // Manifests are shown and kept: what is secret comes from a Secret of the cluster.
            true => {
                let from = json!({ "name": secret_of(plan), "key": key });
                json!({ "name": key, "valueFrom": { "secretKeyRef": from } })
            }
            false => json!({ "name": key, "value": escaped(value) }),
        })
        .collect();
    if group.hosts.len() > 1 {
        // What differs among the pods of one role is known in the pod only.
        let path = "metadata.annotations['jobset.sigs.k8s.io/job-index']";
        env.push(
            json!({ "name": "BAREWIRE_HOST_INDEX", "valueFrom": { "fieldRef": { "fieldPath": path } } }),
        );
    }
    let mut container = json!({
        "name": group.label,
        "image": options.image,
        "command": command.iter().map(|word| escaped(word)).collect::<Vec<_>>(),
        "env": env,
    });
    if let Some(cwd) = &role.cwd {
        container["workingDir"] = json!(fill(cwd)?);
    }
    if !options.resources.is_empty() {
        container["resources"] = json!({ "requests": options.resources, "limits": options.resources });
    }
    if !options.capabilities.is_empty() {
        container["securityContext"] = json!({ "capabilities": { "add": options.capabilities } });
    }
    let mut pod = json!({ "restartPolicy": "Never", "containers": [container] });
    if !options.node_selector.is_empty() {
        pod["nodeSelector"] = json!(options.node_selector);
    }
    if options.host_network {
        pod["hostNetwork"] = json!(true);
        pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
    }
    let mut job = json!({
        "parallelism": 1,
        "completions": 1,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": { "spec": pod },
    });
    if let Some(timeout) = plan.method.timeout {
        let longest = timeout + plan.method.ready_timeout + START_ALLOWANCE;
        job["activeDeadlineSeconds"] = json!(longest.as_secs());
    }
    Ok(json!({ "name": group.label, "replicas": group.hosts.len(), "template": { "spec": job } }))
}

/// The value of a placeholder in a role's command. Pods of one role have one command: what differs among them has no value.
fn value(
    plan: &Plan,
    point: &Point,
    run: u32,
    group: &Group<'_>,
    groups: &[Group<'_>],
    name: &str,
) -> Option<String> {
    if let Some((_, value)) = point.iter().find(|(key, _)| key == name) {
        return Some(value.to_string());
    }
    match name {
        "seconds" => return Some(plan.method.seconds.to_string()),
        "warmup" => return Some(plan.method.warmup_s.to_string()),
        "run" => return Some(run.to_string()),
        "runs" => return Some(plan.method.runs.to_string()),
        "seed" => return Some(plan.seed.to_string()),
        "name" => return Some(plan.name.clone()),
        "self" => return Some(BINARY.into()),
        "scratch" => return Some(SCRATCH.into()),
        _ => {}
    }
    let (of, key) = name.split_once('.')?;
    if of != "host" {
        let of = groups.iter().find(|group| group.role.name == of)?;
        return match key {
            "addresses" => Some(of.addresses.join(",")),
            "count" => Some(of.hosts.len().to_string()),
            _ => of_pod(of, 0, key),
        };
    }
    match (key, group.hosts.len()) {
        // Kubernetes itself fills in variables of this form in a command.
        ("index", 2..) => Some(INDEX.into()),
        _ => {
            let first = of_pod(group, 0, key)?;
            (1..group.hosts.len()).all(|at| of_pod(group, at, key).as_ref() == Some(&first)).then_some(first)
        }
    }
}

/// What is known of one pod of a role.
fn of_pod(group: &Group<'_>, at: usize, key: &str) -> Option<String> {
    let host = group.hosts.get(at)?;
    match key {
        "address" => group.addresses.get(at).cloned(),
        "index" => Some(at.to_string()),
        "name" => host.map(|host| host.name.clone()).or_else(|| group.addresses.get(at).cloned()),
        _ => match host.and_then(|host| host.settings.get(key)) {
            Some(value) => Some(value.clone()),
            None => (key == "interface").then(|| INTERFACE.into()),
        },
    }
}

fn unknown(plan: &Plan, point: &Point, group: &Group<'_>, groups: &[Group<'_>], name: &str) -> K8sError {
    let role = group.role.name.clone();
    let of_first = name.strip_prefix("host.").and_then(|key| of_pod(group, 0, key));
    if of_first.is_some() {
        let hint = ": it differs among the role's pods, which have one command (`{host.index}` may differ)";
        return K8sError::Placeholder { role, name: name.into(), hint: hint.into() };
    }
    let mut known: Vec<String> = point.iter().map(|(key, _)| key.clone()).collect();
    known.extend(["seconds", "warmup", "run", "runs", "seed", "name", "self", "scratch"].map(str::to_owned));
    known.extend(["host.name", "host.address", "host.index", "host.interface"].map(str::to_owned));
    let of_roles = groups.iter().flat_map(|group| {
        ["address", "addresses", "count"].map(|what| format!("{}.{what}", group.role.name))
    });
    known.extend(of_roles);
    known.extend(plan.hosts.iter().flat_map(|host| host.settings.keys().map(|key| format!("host.{key}"))));
    let near = nearest(name, known.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!(", did you mean {{{near}}}?"));
    K8sError::Placeholder { role, name: name.into(), hint }
}

/// The Secret that holds an experiment's secret variables, each under its name.
fn secret_of(plan: &Plan) -> String {
    format!("{}-secrets", plan.name.replace('_', "-"))
}

/// Kubernetes expands `$(NAME)` in commands and variables; `$$(` is a plain `$(`.
fn escaped(text: &str) -> String {
    text.split(INDEX).map(|part| part.replace("$(", "$$(")).collect::<Vec<_>>().join(INDEX)
}

/// A name as a label of DNS: small letters, digits and `-`, first a letter, last no `-`.
fn label(name: &str) -> String {
    let plain = name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let plain = plain.trim_matches('-');
    if plain.starts_with(|c: char| c.is_ascii_lowercase()) { plain.to_owned() } else { format!("x{plain}") }
}
