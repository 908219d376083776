//! Addresses follow nodes and pods: what fits, fails, recovers, is cordoned, drained, switched
//! off and removed. After each step the cloud is looked at, and what people are told.

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::{FloatingIPPool, FloatingIPPoolStatus};
use floe_providers::fake::digitalocean::Script;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use super::ground::{A, B, Ground, NODES, droplet, ground, is_ready, pool, said, status, tell};
use super::secrets::nobody_tells_the_token;
use super::silence::a_silent_agent_moves_nothing;
use crate::LIMIT;
use crate::holdings::told;
use crate::moving::node_of;
use crate::vips::ground::{make_ready, web};

/// The web server of a node, as the pool asks for one.
fn server(node: &str) -> Value {
    let number = node.trim_start_matches("node-");
    web(&format!("web-{number}"), node, &json!({}))
}

/// The node of an address in the status, and its state.
fn at(status: &FloatingIPPoolStatus, ip: &str) -> (String, String) {
    let found = status.ips.get(ip).cloned().unwrap_or_default();
    (found.node_name, found.state)
}

fn waiting(nodes: &[&str]) -> impl Fn(&FloatingIPPoolStatus) -> bool {
    move |status| status.assignable_nodes == nodes
}

/// Waits until both addresses are where they shall be: at the cloud, in the status, on the
/// nodes, and a name says them.
async fn serve(ground: &Ground, namespace: &TestNamespace<'_>, b: &str, a: &str) -> Result<()> {
    ground.placed(&[(B, b), (A, a)]).await?;
    let active = |node: &str| (node.to_owned(), "active".to_owned());
    let pool = status(namespace, &format!("{B} on {b}, {A} on {a}"), |status| {
        at(status, B) == active(b) && at(status, A) == active(a)
    })
    .await?;
    ground.annotated(&[(B, b), (A, a)]).await?;
    ground.says("www", &[A, B]).await?;
    let known = pool.status.map(|it| it.observed_generation);
    ensure!(known == Some(pool.metadata.generation), "{known:?}");
    is_ready(namespace, "True", "Served").await?;
    Ok(())
}

async fn moved(
    namespace: &TestNamespace<'_>,
    ip: &str,
    from: &str,
    to: &str,
    why: &str,
) -> Result<()> {
    let note = format!("{ip}: moved from {from} to {to} ({why})");
    told(namespace, "ingress", "Moved", &note).await?;
    let pool = namespace.api::<FloatingIPPool>().get("ingress").await?;
    let moves = pool.status.unwrap_or_default().memory.moves;
    let last = moves.get(ip).context("the status tells no move")?;
    let last = (last.from.as_str(), last.to.as_str(), last.reason.as_str());
    ensure!(
        last == (from.trim_start_matches("nowhere"), to, why),
        "{last:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn addresses_of_a_cloud_follow_nodes_and_pods_whatever_becomes_of_them() -> Result<()> {
    let ground = ground().await?;
    let namespace = TestNamespace::create(&ground.cluster, "ingress").await?;
    for node in NODES {
        namespace.apply(&server(node).to_string())?;
    }
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    let mut ingress = pool(&namespace);
    ingress["spec"]["match"]["podNamespace"] = namespace.name().into();
    ingress["spec"]["match"]["podLabel"] = "app=web".into();
    namespace.apply(&ingress.to_string())?;

    // No node has the label.
    is_ready(&namespace, "False", "NoFittingNode").await?;
    ensure!(ground.orders() == 0 && said(&ground.cloud, "www").is_empty());

    // The last address of the list is used first.
    ground.label("node-1", Some(namespace.name()))?;
    ground.placed(&[(B, "node-1")]).await?;
    ground.label("node-2", Some(namespace.name()))?;
    serve(&ground, &namespace, "node-1", "node-2").await?;
    moved(&namespace, B, "nowhere", "node-1", "Unassigned").await?;
    ground.label("node-3", Some(namespace.name()))?;
    status(&namespace, "node-3 waits", waiting(&["node-3"])).await?;
    people_see_it(&ground, &namespace).await?;
    figures_are_flipops(&ground, &namespace).await?;

    // A pod that is not ready; the cloud takes its time.
    tell(&ground.cloud, Script::Hold { hold: true })?;
    make_ready(&namespace, "web-1", false)?;
    status(&namespace, "it is on its way", |status| {
        at(status, B).1 == "in-progress" && !status.memory.pending.is_empty()
    })
    .await?;
    is_ready(&namespace, "False", "Moving").await?;
    tell(&ground.cloud, Script::Settle { failed: false })?;
    tell(&ground.cloud, Script::Hold { hold: false })?;
    serve(&ground, &namespace, "node-3", "node-2").await?;
    moved(&namespace, B, "node-1", "node-3", "PodNotReady").await?;

    // Whoever recovers waits: nothing is moved without need.
    let orders = ground.orders();
    make_ready(&namespace, "web-1", true)?;
    status(&namespace, "node-1 waits", waiting(&["node-1"])).await?;
    ensure!(ground.orders() == orders, "something was moved");

    ground.terminal.run("kubectl cordon node-2")?;
    serve(&ground, &namespace, "node-3", "node-1").await?;
    moved(&namespace, A, "node-2", "node-1", "Tainted").await?;
    ground.terminal.run("kubectl uncordon node-2")?;
    status(&namespace, "node-2 waits", waiting(&["node-2"])).await?;

    let leader = ground.leader().await?.name_any();
    ground
        .terminal
        .run("kubectl drain node-3 --force --ignore-daemonsets --timeout=60s")?;
    serve(&ground, &namespace, "node-2", "node-1").await?;
    // A leader that is drained, too, may end between the Event of a move and the status.
    if ground.leader().await?.name_any() == leader {
        moved(&namespace, B, "node-3", "node-2", "Tainted").await?;
    }
    ground.terminal.run("kubectl uncordon node-3")?;
    namespace.apply(&server("node-3").to_string())?;
    status(&namespace, "node-3 waits", waiting(&["node-3"])).await?;

    a_silent_agent_moves_nothing(&ground, "node-1").await?;
    power_off(&ground, &namespace).await?;
    remove(&ground, &namespace).await?;

    // Nothing is given back, and nothing is taken off, but annotations are floe's own.
    let before = (ground.places(), ground.orders());
    namespace.kubectl(&["delete", "floatingippool", "ingress"])?;
    ground.annotated(&[]).await?;
    ensure!(
        (ground.places(), ground.orders()) == before,
        "it was not left alone"
    );
    ensure!(said(&ground.cloud, "www").len() == 2, "the name is gone");
    nobody_tells_the_token(&ground).await
}

/// The node that is switched off has an address and, as bad luck has it, the controller
/// that leads.
async fn power_off(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    let victim = node_of(&ground.leader().await?)?;
    // node-2 has B and node-1 has A; node-3 waits.
    let (b, a, ip) = match victim.as_str() {
        "node-1" => ("node-2", "node-3", A),
        "node-2" => ("node-3", "node-1", B),
        _ => {
            // It has no address: the node that waits gets one first.
            ground.terminal.run("kubectl cordon node-1")?;
            serve(ground, namespace, "node-2", "node-3").await?;
            ground.terminal.run("kubectl uncordon node-1")?;
            status(namespace, "node-1 waits", waiting(&["node-1"])).await?;
            ("node-2", "node-1", A)
        }
    };
    ground.cluster.power_off(&victim).await?;
    serve(ground, namespace, b, a).await?;
    let to = if ip == A { a } else { b };
    moved(namespace, ip, &victim, to, "NodeNotReady").await?;
    ground.cluster.power_on(&victim).await?;
    ground.cluster.wait_for_node(&victim, true, LIMIT).await?;
    status(namespace, "the node waits", waiting(&[&victim])).await?;
    Ok(())
}

/// A node that has an address is removed from cluster and cloud, and comes back as new.
async fn remove(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    let places = ground.places();
    let victim = places[&B.parse()?].clone().context("nobody has it")?;
    let keeper = places[&A.parse()?].clone().context("nobody has it")?;
    let spare = NODES.iter().find(|it| **it != victim && **it != keeper);
    let spare = *spare.context("nobody waits")?;
    ground.cluster.kill(&victim, "kubelet").await?;
    let nodes: Api<Node> = Api::all(ground.cluster.client().await?);
    nodes.delete(&victim, &DeleteParams::default()).await?;
    tell(
        &ground.cloud,
        Script::Vanish {
            id: droplet(&victim)?,
        },
    )?;
    serve(ground, namespace, spare, &keeper).await?;

    let (id, region) = (droplet(&victim)?, "nyc3".to_owned());
    tell(&ground.cloud, Script::Droplet { id, region })?;
    ground.cluster.start(&victim, "kubelet").await?;
    wait::until("the node is there again", LIMIT, async || {
        Ok(nodes.get_opt(&victim).await?.map(|_| ()))
    })
    .await?;
    ground.enlist(&victim).await?;
    ground.cluster.wait_for_node(&victim, true, LIMIT).await?;
    ground.label(&victim, Some(namespace.name()))?;
    namespace.apply(&server(&victim).to_string())?;
    status(namespace, "the node waits", waiting(&[&victim])).await?;
    serve(ground, namespace, spare, &keeper).await
}

/// What `kubectl get`, `kubectl describe` and `kubectl floe` show.
async fn people_see_it(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    status(namespace, "it is published", |status| {
        let mut conditions = status.conditions.iter();
        let published = conditions.find(|it| it.type_ == "Published");
        published.is_some_and(|it| it.status == "True")
    })
    .await?;
    let row = namespace.kubectl(&["get", "floatingippool", "ingress", "--no-headers"])?;
    let row: Vec<&str> = row.split_whitespace().collect();
    let wanted = ["ingress", "digitalocean", "2", "2", "1", "True", "Served"];
    ensure!(row.starts_with(&wanted), "kubectl get shows {row:?}");

    let name = namespace.name();
    let run = |line: &str| {
        ground
            .terminal
            .run(&format!("kubectl floe nodepool {line} -n {name}"))
    };
    let listed = run("list --no-headers")?;
    let listed: Vec<&str> = listed.split_whitespace().collect();
    ensure!(
        listed == [&[name][..], &wanted].concat(),
        "kubectl floe lists {listed:?}"
    );
    let shown = run("show ingress")?;
    for word in [
        A,
        B,
        "node-1",
        "node-2",
        "node-3",
        "active",
        "Served",
        "www in example.com",
    ] {
        ensure!(
            shown.contains(word),
            "kubectl floe shows no {word}:\n{shown}"
        );
    }
    let described = namespace.kubectl(&["describe", "floatingippool", "ingress"])?;
    ensure!(
        described.contains("moved from nowhere to node-1"),
        "kubectl describe tells no Event:\n{described}"
    );
    Ok(())
}

/// B is on node-1, A on node-2, and node-3 waits.
async fn figures_are_flipops(ground: &Ground, namespace: &TestNamespace<'_>) -> Result<()> {
    let pool = format!("namespace=\"{}\",name=\"ingress\"", namespace.name());
    let rest = "provider=\"digitalocean\",dns=\"www.example.com\"";
    let of =
        |what: &str, labels: &str| format!("flipop_floatingippoolcontroller_{what}{{{labels}}}");
    let ip = |ip: &str| format!("{pool},ip=\"{ip}\",{rest}");
    let calls = format!(
        "flipop_providers_calls_total{{provider=\"digitalocean\",call=\"AssignIP\",\
         outcome=\"success\",kind=\"FloatingIPPool\",{pool}}}"
    );
    let node = "provider_id=\"digitalocean://1002\",node=\"node-2\"";
    ground
        .measured(&[
            (
                of(
                    "node_status",
                    &format!("{pool},{rest},status=\"available\""),
                ),
                1.0,
            ),
            (
                of("node_status", &format!("{pool},{rest},status=\"assigned\"")),
                2.0,
            ),
            (of("unfulfilled_ips", &format!("{pool},{rest}")), 0.0),
            (of("ip_assignments", &ip(B)), 1.0),
            (of("ip_assignment_errors", &ip(B)), 0.0),
            (of("ip_state", &format!("{},state=\"active\"", ip(A))), 1.0),
            (of("ip_node", &format!("{},{node}", ip(A))), 1.0),
            (calls, 2.0),
        ])
        .await
}
