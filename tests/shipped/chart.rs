//! The chart: clean, strict about values, and the origin of the plain manifests.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use floe_testbed::{chart, helm};

/// What the chart makes of some values: what is rendered, or why not.
fn render(values: &[&str]) -> Result<Result<String, String>> {
    let mut template = chart::template()?;
    for value in values {
        template.args(["--set-json", value]);
    }
    run(&mut template)
}

fn run(command: &mut Command) -> Result<Result<String, String>> {
    let output = command.output().context("cannot run helm")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    })
}

fn rendered(values: &[&str]) -> Result<String> {
    render(values)?.map_err(|why| anyhow::anyhow!("{values:?} are refused: {why}"))
}

/// The one document of a kind and a name.
fn document<'a>(text: &'a str, kind: &str, name: &str) -> Result<&'a str> {
    let (kind, name) = (format!("\nkind: {kind}\n"), format!("\n  name: {name}\n"));
    let mut all = text.split("\n---\n");
    all.find(|it| it.contains(&kind) && it.contains(&name))
        .with_context(|| format!("there is no{kind} of the{name}"))
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn the_chart_is_clean() -> Result<()> {
    let mut lint = Command::new(helm::ensure()?);
    lint.args(["lint", "--strict", "--namespace", chart::NAMESPACE]);
    let told = run(lint.arg(chart::folder()))?;
    ensure!(told.is_ok(), "{told:?}");
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn the_committed_manifests_are_what_the_chart_renders() -> Result<()> {
    for manifest in &chart::MANIFESTS {
        let same = manifest.render()? == manifest.committed()?;
        let file = manifest.file;
        ensure!(
            same,
            "deploy/{file} is stale; `cargo xtask manifests` writes it anew"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn the_service_is_left_out_while_galaxy_has_one() -> Result<()> {
    let text = rendered(&[])?;
    let service = document(&text, "Service", "galaxy-ipam")?;
    // By this `kubectl apply` leaves it out.
    let label = "\n    app.kubernetes.io/component: service\n";
    ensure!(service.contains(label), "{service}");
    ensure!(text.matches(label).count() == 1, "others would go with it");
    let text = rendered(&["controller.service.enabled=false"])?;
    ensure!(document(&text, "Service", "galaxy-ipam").is_err(), "{text}");
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn values_that_make_no_sense_are_refused_by_their_names() -> Result<()> {
    let cases = [
        (r#"contoller={"replicas":3}"#, "contoller"),
        (r#"controller={"replica":3}"#, "replica"),
        (r#"controller.replicas="two""#, "/controller/replicas"),
        ("controller.replicas=-1", "/controller/replicas"),
        (r#"controller.api.auth="open""#, "/controller/api/auth"),
        (
            r#"controller.service.enabled="no""#,
            "/controller/service/enabled",
        ),
        (
            r#"controller.service.type="Node""#,
            "/controller/service/type",
        ),
        (
            r#"controller.image.digest="sha256:12""#,
            "/controller/image/digest",
        ),
        (r#"controller.extraArgs=["v=4"]"#, "/controller/extraArgs/0"),
        ("agent.vipPort=0", "/agent/vipPort"),
        (r#"agent.maxUnavailable="many""#, "/agent/maxUnavailable"),
        (
            r#"agent.hostPaths.plugins="opt/cni""#,
            "/agent/hostPaths/plugins",
        ),
        (r#"addresses=[{"subnet":"10.0.0.0/24"}]"#, "/addresses/0"),
        (
            r#"networks={"NetworkConf":[{"device":"eth0"}]}"#,
            "/networks/NetworkConf/0",
        ),
        (r#"customWorkloads=[{"group":"a.b"}]"#, "/customWorkloads/0"),
        (r#"webhook.enabled="yes""#, "/webhook/enabled"),
        (r#"webhook={"caBundle":"x"}"#, "caBundle"),
        (
            "controller.extender.clientCA=true",
            "controller.extender.tlsSecret",
        ),
    ];
    for (value, named) in cases {
        let Err(why) = render(&[value])? else {
            anyhow::bail!("{value} is accepted");
        };
        ensure!(
            why.contains(named),
            "{value} is refused without {named}: {why}"
        );
    }
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn another_namespace_is_refused() -> Result<()> {
    let mut template = chart::template()?;
    let Err(why) = run(template.args(["--namespace", "default"]))? else {
        anyhow::bail!("it is accepted");
    };
    ensure!(why.contains("--namespace kube-system"), "{why}");
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn addresses_and_networks_of_the_values_are_galaxy_s_config_maps() -> Result<()> {
    let plain = rendered(&[])?;
    for name in ["floatingip-config", "galaxy-etc"] {
        ensure!(
            document(&plain, "ConfigMap", name).is_err(),
            "{name} is there"
        );
    }
    let entry = r#"{"ips":["10.0.0.2~10.0.0.9"],"subnet":"10.0.0.0/24","gateway":"10.0.0.1"}"#;
    let addresses = format!("addresses=[{entry}]");
    let networks = r#"networks={"ENIIPNetwork":"x","NetworkConf":[{"type":"x"}]}"#;
    let text = rendered(&[&addresses, networks])?;
    let map = document(&text, "ConfigMap", "floatingip-config")?;
    ensure!(map.contains("10.0.0.2~10.0.0.9"), "{map}");
    let map = document(&text, "ConfigMap", "galaxy-etc")?;
    ensure!(map.contains("  galaxy.json: |\n    {\n"), "{map}");
    // Agents read networks when they start.
    let agents = document(&text, "DaemonSet", "floe-agent")?;
    ensure!(agents.contains("        floe.dev/networks: "), "{agents}");
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn settings_become_flags_and_defaults_do_not() -> Result<()> {
    let plain = rendered(&[])?;
    let controller = document(&plain, "Deployment", "floe-controller")?;
    ensure!(!controller.contains("args:"), "{controller}");
    let text = rendered(&[
        r#"controller.api.auth="none""#,
        "controller.nodePools=false",
        r#"controller.extender.tlsSecret="sched""#,
        r#"controller.extraArgs=["--leader-elect=false"]"#,
        "agent.vip=false",
        "agent.trustAnnotations=true",
    ])?;
    let controller = document(&text, "Deployment", "floe-controller")?;
    for flag in [
        "- --api-auth=none\n",
        "- --node-pools=false\n",
        "- --extender-tls-key-file=/etc/floe/extender/tls.key\n",
        "- \"--leader-elect=false\"\n",
        "secretName: sched",
    ] {
        ensure!(controller.contains(flag), "{flag} is not in {controller}");
    }
    let agent = document(&text, "DaemonSet", "floe-agent")?;
    for flag in ["- --vip=false\n", "- --trust-annotations=true\n"] {
        ensure!(agent.contains(flag), "{flag} is not in {agent}");
    }
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn the_api_server_asks_floe_where_somebody_answers() -> Result<()> {
    let hooks = |values: &[&str]| -> Result<[bool; 3]> {
        let text = rendered(values)?;
        // Whoever writes it into the chart takes it away with each upgrade.
        ensure!(!text.contains("caBundle:"), "the chart has a caBundle");
        let has = |kind: &str, name: &str| document(&text, kind, name).is_ok();
        Ok([
            has("Service", "floe-webhook"),
            has("ValidatingWebhookConfiguration", "floe"),
            has("MutatingWebhookConfiguration", "floe"),
        ])
    };
    let gates = r#"controller.scheduling="gates""#;
    for (values, expected) in [
        (&[][..], [true, true, false]),
        (&[gates], [true, true, true]),
        (&["webhook.enabled=false"], [false; 3]),
        (&[gates, "webhook.enabled=false"], [false; 3]),
        (&["controller.floatIPs=false"], [false; 3]),
        (&["controller.enabled=false"], [false; 3]),
        (&["agent.enabled=false"], [true, true, false]),
        // It goes before the controllers do.
        (&[gates, "agent.remove=true"], [false; 3]),
    ] {
        ensure!(
            hooks(values)? == expected,
            "{values:?}: {:?}",
            hooks(values)?
        );
    }
    let without = rendered(&["webhook.enabled=false"])?;
    let controller = document(&without, "Deployment", "floe-controller")?;
    ensure!(controller.contains("- --webhook=false\n"), "{controller}");
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn custom_workloads_are_granted_by_a_role_that_is_collected() -> Result<()> {
    let value = r#"customWorkloads=[{"group":"apps.tkestack.io","resources":["tapps"]}]"#;
    let text = rendered(&[value])?;
    let role = document(&text, "ClusterRole", "floe-controller-custom-workloads")?;
    for part in [
        "    floe.dev/aggregate-to-controller: \"true\"\n",
        "  - apiGroups: [\"apps.tkestack.io\"]\n    resources: [\"tapps\"]\n    verbs: [list, watch]",
    ] {
        ensure!(role.contains(part), "{part} is not in {role}");
    }
    Ok(())
}

#[test]
#[ignore = "needs helm: cargo xtask test --only shipped"]
fn nobody_is_privileged_unless_asked_for() -> Result<()> {
    let plain = rendered(&[])?;
    ensure!(
        !plain.contains("privileged: true"),
        "somebody is privileged"
    );
    // Each container, and that which installs.
    let drops = plain.matches("drop: [ALL]").count();
    let read_only = plain.matches("readOnlyRootFilesystem: true").count();
    ensure!(
        (drops, read_only) == (3, 3),
        "{drops} drop all, {read_only} are read-only"
    );
    let asked = rendered(&["agent.privileged=true"])?;
    ensure!(asked.contains("privileged: true"), "it is not");
    Ok(())
}
