//! An object that somebody takes away without floe's leave and makes anew: its addresses are not
//! given to anybody while its holder could still speak for them.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe::agent;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::ground::{alone, holder, refused, served, webs};
use super::standstill::{Frozen, agent_process};
use super::wire::Wire;
use crate::LIMIT;
use crate::http::get;

fn object(ip: &str) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "remade" },
        "spec": { "addresses": [ip], "selector": { "matchLabels": { "app": "web" } } },
    })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_object_made_anew_waits_until_the_last_holder_is_sure_to_be_silent() -> Result<()> {
    const IP: &str = "10.200.0.241";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "remade").await?;
    webs(&namespace, &json!({})).await?;
    namespace.apply(&object(IP).to_string())?;
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
    namespace.apply(&object(IP).to_string())?;
    refused(&namespace, "remade", "AddressStillHeld").await?;
    // The kernel of that node ends it by itself.
    let outside = cluster.outside().await?;
    let to = SocketAddr::new(IP.parse()?, 80);
    wait::until("nobody answers", LIMIT, async || {
        Ok(get(&outside, to).is_err().then_some(()))
    })
    .await?;

    // That nobody answers proves nothing: a node may go on for minutes by what others have
    // promised it. So it stays refused, also when the node is well again, and nobody speaks.
    drop(frozen);
    agent::wait_until_ready(&cluster)?;
    namespace.kubectl(&["label", "vip", "remade", "looked=again"])?;
    refused(&namespace, "remade", "AddressStillHeld").await?;
    ensure!(get(&outside, to).is_err(), "somebody answers");
    let speakers = wire.speakers().await?;
    let (_, heard) = speakers.first().context("nobody was heard")?;
    ensure!(heard.len() == 1, "{heard:?} spoke for it");
    Ok(())
}
