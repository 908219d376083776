//! A `VirtualIP` that is deleted together with its finalizer and created again: its addresses
//! are given to no pod while the node of the previous holder may still answer for them.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use floe_api::floe::register::{VirtualIPRegister, name_for};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe::agent;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::ground::{alone, holder, refused, served, webs};
use super::standstill::{Frozen, agent_process};
use super::wire::Wire;
use crate::LIMIT;
use crate::http::get;

fn object(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name },
        "spec": { "addresses": [ip], "selector": { "matchLabels": { "app": "web" } } },
    })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_object_made_anew_waits_until_the_last_holder_is_sure_to_be_silent() -> Result<()> {
    const IP: &str = "10.200.0.241";
    const NEXT: &str = "10.200.0.247";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "remade").await?;
    webs(&namespace, &json!({})).await?;
    namespace.apply(&object("remade", IP).to_string())?;
    let first = served(&namespace, "remade", |_| true).await?;
    let wire = Wire::listen(&namespace, &[("remade", &[IP])]).await?;
    let old = holder(&first)?;
    wire.hears(&old.node, LIMIT).await?;

    // Its holder cannot let go, and nobody waits for it.
    let frozen = Frozen::new(agent_process(&cluster, &old.node).await?)?;
    namespace.kubectl(&["delete", "vip", "remade", "--wait=false"])?;
    let off = r#"--patch={"metadata":{"finalizers":null}}"#;
    namespace.kubectl(&["patch", "vip", "remade", "--type=merge", off])?;
    wait::until("the object is gone", LIMIT, async || {
        let left = namespace.api::<VirtualIP>().get_opt("remade").await?;
        Ok(left.is_none_or(|it| it.uid() != first.uid()).then_some(()))
    })
    .await?;
    namespace.apply(&object("remade", IP).to_string())?;
    refused(&namespace, "remade", "AddressStillHeld").await?;
    // The kernel of that node ends it by itself.
    let outside = cluster.outside().await?;
    let to = SocketAddr::new(IP.parse()?, 80);
    wait::until("nobody answers", LIMIT, async || {
        Ok(get(&outside, to).is_err().then_some(()))
    })
    .await?;

    let speakers = wire.speakers().await?;
    let (_, heard) = speakers.first().context("nobody was heard")?;
    ensure!(heard.len() == 1, "{heard:?} spoke for it");

    // The agent goes on with the view that it had, in which the object is there and its own.
    // The API server rejects that, because the controller has withdrawn the addresses.
    let uid = first.uid().context("it has a uid")?;
    wait::until("its addresses are withdrawn", LIMIT, async || {
        let registers: Api<VirtualIPRegister> = Api::all(cluster.client().await?);
        let register = registers.get(&name_for(&uid)).await?;
        let entry = register.entries.get(&uid).context("it has no entry")?;
        ensure!(entry.holder.is_some(), "its holder is forgotten");
        Ok(entry.addresses.is_empty().then_some(()))
    })
    .await?;
    let wire = Wire::listen(&namespace, &[("remade", &[IP])]).await?;
    drop(frozen);
    agent::wait_until_ready(&cluster)?;
    // An object that only this node can serve shows when its agent has caught up.
    namespace.kubectl(&["label", "pod", &old.pod, "next=here"])?;
    let mut next = object("next", NEXT);
    next["spec"]["selector"] = json!({ "matchLabels": { "next": "here" } });
    namespace.apply(&next.to_string())?;
    served(&namespace, "next", |_| true).await?;
    // Whether the agent lets go of it or learns first that the object is gone: only a holder
    // of the new object answers, and there may be none for minutes.
    wire.speakers().await?;
    Ok(())
}
