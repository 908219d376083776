//! `kubectl floe` on a real cluster: every command of `docs/cli.md` prints what the
//! document says, and a controller that is open is asked without a token.
//!
//! `FLOE_REWRITE_DOCS=1` writes what is printed into the document instead; look at the
//! difference before it is committed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use floe_testbed::floe::OpenApi;

use self::document::Document;
use self::ground::Ground;

mod document;
mod ground;
pub mod terminal;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// Has the document rewritten.
const REWRITE: &str = "FLOE_REWRITE_DOCS";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn every_command_of_the_cli_document_prints_what_the_document_says() -> Result<()> {
    let cluster = ground::alone().await;
    let ground = Ground::prepare(&cluster).await?;
    let text = fs::read_to_string(DOCUMENT).context("docs/cli.md")?;
    let mut document = Document::read(&text)?;
    let rewrites = std::env::var_os(REWRITE).is_some();
    let mut differences = Vec::new();
    for step in document.steps_mut() {
        let printed = match ground.run(step, rewrites).await {
            // Whoever rewrites sees it in the document.
            Err(error) if rewrites => format!("{error:#}\n"),
            printed => printed?,
        };
        if !step.agrees(&printed) {
            differences.push(format!(
                "$ {}\nthe document says:\n{}\nit prints:\n{printed}",
                step.command, step.output
            ));
            step.output = printed;
            // What follows rests on this.
            if !rewrites {
                break;
            }
        }
    }
    if rewrites {
        fs::write(Path::new(DOCUMENT), document.text())?;
        return Ok(());
    }
    ensure!(
        differences.is_empty(),
        "{REWRITE}=1 rewrites the document\n\n{}",
        differences.join("\n\n")
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_open_controller_is_asked_without_a_token_and_that_is_told() -> Result<()> {
    let cluster = ground::alone().await;
    let ground = Ground::prepare(&cluster).await?;
    // Until nobody is sent to the controllers of before, which still have both.
    let _open = OpenApi::start(&cluster)?;
    floe_testbed::floe::leader(&cluster, crate::LIMIT).await?;
    let told = "warning: the management API is open: it has neither TLS nor tokens \
                (--api-auth=none), so everybody who reaches it may release addresses\n\
                It has no record, and is in no range of the configuration.\n";
    // Certificate or token: neither is asked for.
    for context in ["lab", "lab-certificate"] {
        let command = format!("kubectl floe --context {context} explain 10.0.70.200");
        let printed = ground.print(&command)?;
        ensure!(printed.starts_with(told), "{command} prints:\n{printed}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn kubectl_completes_the_words_of_floe() -> Result<()> {
    let cluster = ground::alone().await;
    let ground = Ground::prepare(&cluster).await?;
    let printed = ground.print(
        "kubectl floe completion kubectl > kubectl_complete-floe && \
         chmod +x kubectl_complete-floe && kubectl __complete floe ip re 2>/dev/null",
    )?;
    let words: Vec<_> = printed.lines().map(|it| it.split('\t').next()).collect();
    assert_eq!(words, [Some("release"), Some("reserve"), Some(":4")]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn without_a_controller_a_reservation_is_made_and_that_is_told() -> Result<()> {
    let cluster = ground::alone().await;
    let ground = Ground::prepare(&cluster).await?;
    floe_testbed::floe::scale(&cluster, 0)?;
    let printed = ground.print("kubectl floe ip reserve 10.0.70.9 --purpose printer")?;
    floe_testbed::floe::scale(&cluster, 2)?;
    let told = "warning: no controller of floe runs in namespace kube-system; the records are \
                written without the controller, so nobody looks whether a pod runs with an \
                address that has lost its record\n\
                floatingip.galaxy.k8s.io/10.0.70.9 reserved\n";
    assert_eq!(printed, told);
    let printed = ground.print("kubectl floe ip unreserve 10.0.70.9 --yes")?;
    assert_eq!(printed, "floatingip.galaxy.k8s.io/10.0.70.9 unreserved\n");
    Ok(())
}
