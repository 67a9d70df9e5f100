//! A topology for other people's labs: files for containerlab and for Mininet.

mod containerlab;
mod mininet;
#[cfg(test)]
mod tests;

pub use containerlab::export_containerlab;
pub use mininet::export_mininet;

use crate::topology::{HostPlan, RoutePlan};

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A text as a literal: JSON's, which is YAML's in double quotes and Python's too.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The commands that give a host what the plan says, once its links are there. `name` is what an interface is called.
fn host_commands(host: &HostPlan, mut name: impl FnMut(usize) -> String) -> Vec<String> {
    let mut commands = Vec::new();
    if host.forwarding {
        commands.push("sysctl -q -w net.ipv4.ip_forward=1".to_owned());
        if host.ipv6 {
            commands.push("sysctl -q -w net.ipv6.conf.all.forwarding=1".to_owned());
        }
    }
    for (i, interface) in host.interfaces.iter().enumerate() {
        let name = name(i);
        if !host.ipv6 {
            commands.push(format!("sysctl -q -w net.ipv6.conf.{name}.disable_ipv6=1"));
        }
        commands.push(format!("ip link set dev {name} address {}", interface.mac));
        for (address, prefix) in &interface.addresses {
            let nodad = if address.is_ipv6() { " nodad" } else { "" };
            commands.push(format!("ip address add {address}/{prefix} dev {name}{nodad}"));
        }
        commands.push(format!("ip link set dev {name} up"));
    }
    commands.extend(host.routes.iter().map(route_command));
    commands
}

fn route_command(route: &RoutePlan) -> String {
    let family = if route.via.is_ipv6() { " -6" } else { "" };
    format!("ip{family} route add {}/{} via {}", route.to.0, route.to.1, route.via)
}
