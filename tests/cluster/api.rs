//! Callers of the management API, with curl from a host of the cluster, and the ground
//! that its tests stand on.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::host::{HostRef, Inside};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LIMIT;
use crate::addresses::every_controller_counts;
use crate::holdings;

/// The name of the API in its certificate.
pub const NAME: &str = "galaxy-ipam.kube-system.svc";
pub const PORT: u16 = 9041;

/// The guide has the account that may do everything.
const GUIDE: &str = include_str!("../../docs/guide/api-access.md");
const OPERATOR: &str = "floe-operator";

/// Somebody who calls the API, by TLS.
#[derive(Clone)]
pub struct Caller {
    from: HostRef,
    to: SocketAddr,
    token: Option<String>,
    /// With the certificate to trust.
    folder: Arc<TempDir>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Caller {
    /// Somebody without a token, who trusts whom the cluster says.
    pub async fn nobody(cluster: &Cluster) -> Result<Self> {
        let client = cluster.client().await?;
        let services: Api<Service> = Api::namespaced(client.clone(), floe::NAMESPACE);
        let service = services.get("galaxy-ipam").await?.spec;
        let service = service.and_then(|it| it.cluster_ip);
        let service: IpAddr = service.context("the API has no address")?.parse()?;
        let maps: Api<ConfigMap> = Api::namespaced(client, floe::NAMESPACE);
        let trusted = wait::until("the API has a certificate", LIMIT, async || {
            let map = maps.get("floe-api-ca").await?;
            Ok(map.data.and_then(|mut data| data.remove("ca.crt")))
        });
        let caller = Self {
            from: cluster.host("control-plane").await?,
            to: SocketAddr::new(service, PORT),
            token: None,
            folder: Arc::new(tempfile::tempdir()?),
        };
        fs::write(caller.certificate(), trusted.await?)?;
        Ok(caller)
    }

    /// Somebody with the account of the guide, which may do everything.
    pub async fn operator(cluster: &Cluster) -> Result<Self> {
        {
            // Of two tests that create the account at once, one would be refused.
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
            let _turn = ONE_AT_A_TIME.lock();
            cluster.apply(block(GUIDE, "yaml", OPERATOR)?, floe::NAMESPACE)?;
        }
        let mut kubectl = cluster.kubectl();
        kubectl.args(["--namespace", floe::NAMESPACE, "create", "token", OPERATOR]);
        let output = kubectl.output()?;
        ensure!(output.status.success(), "no token: {output:?}");
        let token = String::from_utf8(output.stdout)?;
        Ok(Self::nobody(cluster).await?.with(token.trim()))
    }

    /// The same with another token.
    pub fn with(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    /// The same at another address, for example that of one replica.
    pub fn at(&self, to: SocketAddr) -> Self {
        Self { to, ..self.clone() }
    }

    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    pub fn host(&self) -> &HostRef {
        &self.from
    }

    pub fn address(&self) -> SocketAddr {
        self.to
    }

    /// The certificate to trust.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    pub fn url(path: &str) -> String {
        format!("https://{NAME}:{PORT}{path}")
    }

    /// curl with all that it takes to reach the API, without a path.
    pub fn curl(&self) -> Command {
        let mut curl = self.from.command(Inside::Network, "curl");
        curl.args(["--silent", "--show-error", "--noproxy", "*", "--globoff"])
            .args(["--max-time", "60", "--cacert"])
            .arg(self.certificate())
            .args(["--connect-to", &format!("{NAME}:{PORT}:{}", self.to)])
            // It would wait for leave to send a long body.
            .args(["--header", "Expect:"]);
        if let Some(token) = &self.token {
            curl.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        curl
    }

    /// What is answered to any call, with headers as `Name: value`.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Option<&str>,
    ) -> Result<Answer> {
        let mut curl = self.curl();
        curl.args(["--include", "--request", method]);
        for header in headers {
            curl.args(["--header", header]);
        }
        if body.is_some() {
            curl.args(["--data-binary", "@-"]);
        }
        let mut curl = curl
            .arg(Self::url(path))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = curl.stdin.take().context("its input is piped")?;
        // If it ends before it has read all, it says why below.
        let _ = input.write_all(body.unwrap_or_default().as_bytes());
        drop(input);
        let output = curl.wait_with_output()?;
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        Answer::parse(&String::from_utf8(output.stdout)?)
            .with_context(|| format!("{method} {path}: {wrong}"))
    }

    pub fn get(&self, path: &str) -> Result<Answer> {
        self.call("GET", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let json = ["Content-Type: application/json"];
        self.call("POST", path, &json, Some(&body.to_string()))
    }
}

impl Answer {
    fn parse(text: &str) -> Result<Self> {
        let (head, body) = text.split_once("\r\n\r\n").context("there is no answer")?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        });
        Ok(Self {
            status: status.context("there is no status")?.parse()?,
            headers: headers.collect(),
            body: body.to_owned(),
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(had, _)| had == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("answered {self:?}"))
    }
}

/// The block of a document in a language that has a text in it.
pub fn block<'a>(document: &'a str, language: &str, text: &str) -> Result<&'a str> {
    let start = format!("```{language}\n");
    let mut blocks = document.split(&start).skip(1);
    let found = blocks.find_map(|rest| {
        let (block, _) = rest.split_once("```")?;
        block.contains(text).then_some(block)
    });
    found.with_context(|| format!("no block of {language} has {text:?}"))
}

/// Takes the ranges of all racks away and configures others, for a test that is alone
/// and in whose lists nothing else shall be; the next test has the racks again.
pub async fn only_configure(cluster: &Cluster, entries: &str, total: &str) -> Result<()> {
    forget_all(cluster).await?;
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": entries },
    });
    cluster.apply(&configuration.to_string(), floe::NAMESPACE)?;
    every_controller_counts(cluster, total).await
}

/// Deletes all records, once no pod is left that has one.
pub async fn forget_all(cluster: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::all(cluster.client().await?);
    wait::until("no pod has an address", LIMIT, async || {
        let listed = pods.list(&ListParams::default()).await?;
        let with = listed.items.iter().filter(|pod| asks(pod));
        let names: Vec<_> = with.map(kube::ResourceExt::name_any).collect();
        ensure!(names.is_empty(), "there are {names:?}");
        Ok(Some(()))
    })
    .await?;
    let records = holdings::api(cluster.client().await?);
    wait::until("no address has a record", LIMIT, async || {
        let listed = records.list(&ListParams::default()).await?;
        for record in &listed.items {
            let name = record.name_any();
            match records.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(gone)) if gone.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(listed.items.is_empty().then_some(()))
    })
    .await
}

fn asks(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits = containers.filter_map(|it| it.resources.as_ref()?.limits.as_ref());
    limits
        .into_iter()
        .any(|limits| limits.contains_key("tke.cloud.tencent.com/eni-ip"))
}
