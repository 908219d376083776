//! Credential plugins: programs that a kubeconfig names to get a token or a certificate.
//!
//! The client would run such a program for each thing that it wants to know, and it may
//! ask for a password or open a browser. So it is run here, once, and what it says takes
//! its place. What it says is never shown.

use std::{
    io::{self, IsTerminal as _},
    process::{Command, Stdio},
};

use k8s_openapi::ByteString;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Runs the plugin of a user who has one, and puts what it says in its place.
pub fn settle(user: &mut AuthInfo) -> Result<(), Failure> {
    // Compat: what stands in the kubeconfig itself comes before a plugin.
    let has_other = user.auth_provider.is_some()
        || (user.username.is_some() && user.password.is_some())
        || user.token.is_some()
        || user.token_file.is_some();
    let Some(plugin) = user.exec.take().filter(|_| !has_other) else {
        return Ok(());
    };
    let credential = run(&plugin)?;
    let wrong = || failure(&plugin, "answers with no credential");
    if let (Some(certificate), Some(key)) = (credential.certificate, credential.key) {
        user.client_certificate_data = Some(encoded(certificate).ok_or_else(wrong)?);
        user.client_key_data = Some(encoded(key).ok_or_else(wrong)?.into());
        user.client_certificate = None;
        user.client_key = None;
    } else {
        user.token = Some(credential.token.ok_or_else(wrong)?.into());
    }
    Ok(())
}

/// What a plugin says.
#[derive(Deserialize)]
struct Answer {
    status: Credential,
}

#[derive(Deserialize)]
struct Credential {
    token: Option<String>,
    #[serde(rename = "clientCertificateData")]
    certificate: Option<String>,
    #[serde(rename = "clientKeyData")]
    key: Option<String>,
}

fn run(plugin: &ExecConfig) -> Result<Credential, Failure> {
    let program = plugin.command.as_deref().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(plugin.args.iter().flatten());
    for pair in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (pair.get("name"), pair.get("value")) {
            command.env(name, value);
        }
    }
    // Who is not at a terminal may have put something else there, like a backup.
    let is_interactive =
        plugin.interactive_mode != Some(ExecInteractiveMode::Never) && io::stdin().is_terminal();
    let input = if is_interactive {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    let output = command
        .env("KUBERNETES_EXEC_INFO", request(plugin, is_interactive))
        .stdin(input)
        .stderr(Stdio::inherit())
        .output();
    let output = output.map_err(|error| {
        let hint = plugin.install_hint.as_deref().unwrap_or_default();
        let hint = if hint.is_empty() {
            String::new()
        } else {
            format!("; {hint}")
        };
        failure(plugin, &format!("cannot be run: {error}{hint}"))
    })?;
    if !output.status.success() {
        return Err(failure(plugin, &format!("ends with {}", output.status)));
    }
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .map_err(|_| failure(plugin, "answers with no credential"))?;
    Ok(answer.status)
}

/// What a plugin is told.
fn request(plugin: &ExecConfig, is_interactive: bool) -> String {
    let mut spec = json!({ "interactive": is_interactive });
    if let Some(cluster) = plugin
        .cluster
        .as_ref()
        .filter(|_| plugin.provide_cluster_info)
    {
        spec["cluster"] = json!(cluster);
    }
    let version = plugin.api_version.as_deref();
    let version = version.unwrap_or("client.authentication.k8s.io/v1");
    json!({ "apiVersion": version, "kind": "ExecCredential", "spec": spec }).to_string()
}

fn failure(plugin: &ExecConfig, told: &str) -> Failure {
    let program = plugin.command.as_deref().unwrap_or_default();
    Failure::Kubeconfig(format!("the credential plugin {program:?} {told}"))
}

/// The text as a kubeconfig has it.
fn encoded(text: String) -> Option<String> {
    match serde_json::to_value(ByteString(text.into_bytes())) {
        Ok(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
