//! The chart in `deploy/chart`, and the plain manifests that are rendered from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{command, helm};

/// The name under which everything is installed.
pub const RELEASE: &str = "floe";
/// The namespace in which floe lives.
pub const NAMESPACE: &str = "kube-system";

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// A plain manifest.
pub struct Manifest {
    /// Its file in `deploy`.
    pub file: &'static str,
    /// What its first lines say.
    about: &'static str,
    /// What is set for it.
    values: &'static [&'static str],
    /// The templates that go into it, as patterns.
    templates: &'static [&'static str],
}

/// All manifests that are rendered.
pub const MANIFESTS: [Manifest; 4] = [
    Manifest {
        file: "controller.yaml",
        about: "\
# The control plane of floe: two replicas, of which one leads by a lease. Apply
# deploy/crds first: a replica is not ready before it has read deploy/crds/galaxy.yaml.
",
        values: &["controller.image.tag=dev", "agent.enabled=false"],
        templates: &["templates/controller/*"],
    },
    Manifest {
        file: "agent.yaml",
        about: "\
# The node side of floe: one agent on each node, which gives pods their networks and
# addresses. Apply deploy/crds first. Which networks there are is said in the ConfigMap
# galaxy-etc, as with galaxy; deploy/examples/networks.yaml is a sample.
",
        values: &["agent.image.tag=dev", "controller.enabled=false"],
        templates: &["templates/agent/*"],
    },
    Manifest {
        file: "webhook.yaml",
        about: "\
# What the API server asks floe before it stores an object: docs/guide/admission.md. Apply it
# after deploy/controller.yaml, when the controllers are ready; remove it before them.
",
        values: &[],
        templates: &[
            "templates/webhook/service.yaml",
            "templates/webhook/validation.yaml",
        ],
    },
    Manifest {
        file: "webhook-gates.yaml",
        about: "\
# Only with --scheduling=gates, and after deploy/webhook.yaml, which has the Service.
",
        values: &["controller.scheduling=gates"],
        templates: &["templates/webhook/gates.yaml"],
    },
];

/// The folder of the chart.
pub fn folder() -> PathBuf {
    Path::new(DEPLOY).join("chart")
}

impl Manifest {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        Path::new(DEPLOY).join(self.file)
    }

    /// Its text, as the chart has it now.
    pub fn render(&self) -> Result<String> {
        let mut template = template()?;
        for value in self.values {
            template.args(["--set", value]);
        }
        for pattern in self.templates {
            template.args(["--show-only", pattern]);
        }
        let rendered = command::read(&mut template)?;
        Ok(tidied(self.about, &rendered))
    }

    /// Its text, as it is in the tree.
    pub fn committed(&self) -> Result<String> {
        let path = self.path();
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// `helm template` of the chart, to complete.
pub fn template() -> Result<Command> {
    let mut template = Command::new(helm::ensure()?);
    template
        .args(["template", RELEASE])
        .arg(folder())
        .args(["--namespace", NAMESPACE]);
    Ok(template)
}

/// What was rendered, for people: without the names of templates, and with a word about it.
fn tidied(about: &str, rendered: &str) -> String {
    const ORIGIN: &str = "#
# Rendered from deploy/chart by `cargo xtask manifests`: change that, not this.
";
    let lines = rendered
        .lines()
        .filter(|line| !line.starts_with("# Source: "));
    let body: Vec<&str> = lines.map(str::trim_end).collect();
    let body = body.join("\n");
    let body = body.trim().trim_start_matches("---\n");
    format!("{about}{ORIGIN}---\n{body}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_templates_are_left_out_and_comments_stay() {
        let rendered = "---\n# Source: floe/templates/a.yaml\n# Why.\nkind: A\n---\n\
                        # Source: floe/templates/b.yaml\nkind: B\n\n";
        assert_eq!(
            tidied("# About.\n", rendered),
            "# About.\n#\n# Rendered from deploy/chart by `cargo xtask manifests`: change that, \
             not this.\n---\n# Why.\nkind: A\n---\nkind: B\n"
        );
    }
}
