//! What cargo says about the workspace.

use anyhow::Context as _;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One member of the workspace.
pub struct Member {
    /// The package's name.
    pub name: String,
    /// Its folder from the root.
    pub folder: String,
    /// Root files of its libraries and binaries, from the root.
    pub roots: Vec<String>,
    /// Names of members that it is built from: normal and build dependencies, optional ones included.
    pub needs: Vec<String>,
    /// Names of members that its tests need with a version: what it is published with.
    pub published_for_tests: Vec<String>,
    /// Whether it may be published.
    pub published: bool,
}

impl Member {
    /// The folder's own name, which is the crate's name in documents.
    pub fn short_name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    /// Its manifest, from the root.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// The members.
pub struct Workspace {
    /// All of them, by name.
    pub members: Vec<Member>,
}

impl Workspace {
    /// Asks cargo about the workspace at `root`.
    ///
    /// # Errors
    /// When cargo fails, or answers in an unknown way.
    pub fn load(root: &Path) -> anyhow::Result<Workspace> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let out = Command::new(cargo)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root)
            .output()
            .context("starting cargo metadata")?;
        anyhow::ensure!(
            out.status.success(),
            "cargo metadata failed:\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
        Self::parse(&serde_json::from_slice(&out.stdout).context("cargo metadata is no JSON")?)
            .context("cargo metadata lacks a field")
    }

    fn parse(metadata: &Value) -> Option<Workspace> {
        let root = metadata["workspace_root"].as_str()?;
        let below = |path: &str| Path::new(path).strip_prefix(root).ok()?.to_str().map(str::to_owned);
        let packages = metadata["packages"].as_array()?;
        let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
        let mut members = Vec::new();
        for package in packages {
            let folder = below(package["manifest_path"].as_str()?)?;
            let roots = package["targets"].as_array()?.iter().filter(|target| {
                let kinds = target["kind"].as_array();
                let tests = ["test", "bench", "example", "custom-build"];
                !kinds.is_some_and(|k| k.iter().any(|k| tests.iter().any(|t| k == t)))
            });
            let dependencies = package["dependencies"].as_array()?;
            let ours = |of: &mut dyn Iterator<Item = &Value>| -> Vec<String> {
                let all = of.filter_map(|d| d["name"].as_str()).filter(|name| names.contains(name));
                all.map(str::to_owned).collect()
            };
            members.push(Member {
                name: package["name"].as_str()?.to_owned(),
                folder: folder.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
                roots: roots.filter_map(|t| below(t["src_path"].as_str()?)).collect(),
                needs: ours(&mut dependencies.iter().filter(|d| d["kind"] != "dev")),
                published_for_tests: ours(
                    &mut dependencies.iter().filter(|d| d["kind"] == "dev" && d["req"] != "*"),
                ),
                published: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
            });
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Some(Workspace { members })
    }

    /// The member with this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name == name)
    }
}
