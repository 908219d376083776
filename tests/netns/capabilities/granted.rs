//! What the chart grants, and a program that has no more than that.

use std::process::Command;

use floe_testbed::chart;
use k8s_openapi::api::core::v1 as core;
use serde_json::Value;

/// A container of the chart.
pub struct Container {
    /// Its name.
    pub name: String,
    /// The capabilities that it is granted.
    pub added: Vec<String>,
    /// Those that are taken away before.
    pub dropped: Vec<String>,
}

/// All containers that the chart makes of some values.
pub fn containers(values: &[&str]) -> Vec<Container> {
    let mut template = chart::template().unwrap();
    for value in values {
        template.args(["--set", value]);
    }
    let output = template.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values:?}: {told}");
    let text = String::from_utf8(output.stdout).unwrap();
    let options = serde_saphyr::options! { budget: None };
    let objects: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    let templates = objects.iter().map(|it| &it["spec"]["template"]["spec"]);
    let pods = templates.filter(|it| !it.is_null()).map(|it| {
        let pod: core::PodSpec = serde_json::from_value(it.clone()).unwrap();
        pod
    });
    let containers = pods.flat_map(|pod| {
        let first = pod.init_containers.unwrap_or_default();
        first.into_iter().chain(pod.containers)
    });
    let found: Vec<Container> = containers.map(Container::of).collect();
    assert!(found.len() > 1, "{values:?}: the chart has no containers");
    found
}

impl Container {
    fn of(container: core::Container) -> Self {
        let security = container.security_context.unwrap_or_default();
        assert_ne!(security.privileged, Some(true), "{}", container.name);
        let capabilities = security.capabilities.unwrap_or_default();
        Self {
            name: container.name,
            added: capabilities.add.unwrap_or_default(),
            dropped: capabilities.drop.unwrap_or_default(),
        }
    }
}

/// Makes a program, to be named with its arguments behind, run as root with some capabilities
/// and no way to others. It ends with the thread that starts it.
pub fn with_only(capabilities: &[&str]) -> Command {
    let mut bounds = "-all".to_owned();
    for name in capabilities {
        bounds.push_str(",+");
        bounds.push_str(&name.to_lowercase());
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .args(["--inh-caps", "-all", "--ambient-caps", "-all"])
        .args(["--bounding-set", &bounds, "--"]);
    command
}
