//! A server with two nodes and ten addresses, and binders over it.

use std::sync::{Arc, Mutex};

use floe_api::extender::PodRef;
use floe_providers::{Answer, Func, IpProvider};
use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};

use super::*;
use crate::{
    cluster::Workloads,
    events,
    store::{self, Feeds},
};

pub const FIPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
pub const PODS: &str = "/api/v1/namespaces/ns/pods";
pub const BINDINGS: &str = "/binding";
pub const NODES: &str = "/api/v1/nodes";

pub struct World {
    pub server: Server,
    pub addresses: &'static str,
    /// Dropping it ends all watches.
    stopper: Stopper,
    stop: stop::Stop,
}

impl World {
    pub fn new() -> Self {
        Self::with("10.0.70.2~10.0.70.11")
    }

    pub fn with(addresses: &'static str) -> Self {
        let server = Server::default();
        for (name, address) in [("n1", "10.0.0.1"), ("n2", "10.0.0.2"), ("far", "10.9.0.1")] {
            let addresses = json!([{ "type": "Hostname", "address": name },
                                   { "type": "InternalIP", "address": address }]);
            let node =
                json!({ "metadata": { "name": name }, "status": { "addresses": addresses } });
            server.put(NODES, node);
        }
        server.put(
            NODES,
            json!({ "metadata": { "name": "bare" }, "status": {} }),
        );
        let (stopper, stop) = stop::channel();
        Self {
            server,
            addresses,
            stopper,
            stop,
        }
    }

    /// Ends with this world.
    pub fn stop(&self) -> stop::Stop {
        self.stop.clone()
    }

    /// Ends all watches, so that caches stay as they are.
    pub fn end_watches(&self) {
        self.stopper.stop();
    }

    /// A binder with books of its own, which a watch keeps current.
    pub async fn binder(&self) -> Binder {
        let metrics = Metrics::default();
        let cloud = Cloud::new(None, &metrics).unwrap();
        self.binder_with(cloud, metrics).await
    }

    pub async fn binder_in_cloud(&self) -> (Binder, Arc<FakeCloud>) {
        let (metrics, fake) = (Metrics::default(), Arc::<FakeCloud>::default());
        let cloud = Cloud::over(fake.clone(), &metrics);
        (self.binder_with(cloud, metrics).await, fake)
    }

    async fn binder_with(&self, cloud: Cloud, metrics: Metrics) -> Binder {
        let (client, store) = (self.server.client(), Store::default());
        let text = json!([{ "nodeSubnets": ["10.0.0.0/16"], "ips": [self.addresses],
            "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "vlan": 2 }]);
        let Loaded { config, .. } = AddressConfig::parse(&text.to_string(), Mode::Strict).unwrap();
        store.change(|books| books.configure(config));
        let feeds = Feeds {
            client: client.clone(),
            store: store.clone(),
            defined: watch::channel(true).1,
        };
        tokio::spawn(store::feed(feeds, self.stop.clone()));
        let mut warmth = store.warmth();
        warmth.wait_for(|warmth| warmth.records).await.unwrap();
        // As if all running pods had been looked at.
        store.change(|books| books.round_over(books.round()));

        let (cluster, waiting) = (Cluster::new(), Waiting::default());
        let workloads = Workloads::new(client.clone(), cluster.clone());
        let claims = Claims::new(
            client.clone(),
            cluster.clone(),
            workloads,
            store.clone(),
            waiting.clone(),
        );
        Binder {
            records: Records::new(client.clone(), store.clone(), metrics.clone()),
            reporter: Reporter::new(events::channel().0, metrics.clone()),
            turns: Turns::default(),
            client,
            claims,
            cluster,
            store,
            cloud,
            waiting,
            metrics,
        }
    }

    /// A bare pod that wants an address, with uid `uid-<name>`.
    pub fn pod(&self, name: &str, args: Option<&str>) -> Value {
        let mut pod = json!({
            "metadata": { "name": name, "uid": format!("uid-{name}"),
                          "creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {} },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { names::RESOURCE: "1" } } }] },
            "status": { "phase": "Pending" },
        });
        if let Some(args) = args {
            pod["metadata"]["annotations"][names::ARGS] = json!(args);
        }
        self.server.put(PODS, pod)
    }

    pub fn record(&self, address: &str, key: &str, node: &str, uid: &str) {
        self.server.put(FIPS, foreign(address, key, node, uid));
    }

    /// Somebody else takes an address, just before the record is created that
    /// comes after so many others.
    pub fn meanwhile(&self, after: usize, address: &'static str) {
        for _ in 0..after {
            let nothing = |_: &mut State| ();
            self.server
                .fault(Method::POST, FIPS, Fault::Before(Box::new(nothing)));
        }
        let act = move |state: &mut State| {
            state.put(FIPS, foreign(address, "dp_ns_other_x", "", ""));
        };
        self.server
            .fault(Method::POST, FIPS, Fault::Before(Box::new(act)));
    }

    /// The addresses whose records have this uid.
    pub fn held(&self, uid: &str) -> Vec<String> {
        let records = self.server.objects(FIPS).into_iter();
        let uid = format!(r#""Uid":"{uid}""#);
        records
            .filter(|it| it["spec"]["attribute"].as_str().unwrap().contains(&uid))
            .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// How many writes there were so far.
    pub fn writes(&self) -> usize {
        let state = self.server.state();
        state
            .calls
            .iter()
            .filter(|it| !it.starts_with("GET"))
            .count()
    }

    /// Waits for a condition.
    pub async fn until(&self, condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, waiting).await.unwrap();
    }
}

fn foreign(address: &str, key: &str, node: &str, uid: &str) -> Value {
    let attribute = json!({ "NodeName": node, "Uid": uid }).to_string();
    json!({ "metadata": { "name": address }, "spec": { "key": key, "attribute": attribute, "policy": 0 } })
}

pub fn request(pod: &str, node: &str) -> BindRequest {
    BindRequest {
        pod: PodRef {
            namespace: "ns".into(),
            name: pod.into(),
            uid: format!("uid-{pod}"),
        },
        node: node.into(),
    }
}

/// The addresses in the annotation of a pod.
pub fn addresses(pod: &Value) -> Vec<String> {
    let args = pod["metadata"]["annotations"][names::ARGS].as_str();
    let args: Value = serde_json::from_str(args.unwrap_or("{}")).unwrap();
    let infos = args["common"]["ipinfos"].as_array().cloned();
    let text = |info: &Value| {
        info["ip"]
            .as_str()
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .to_owned()
    };
    infos.unwrap_or_default().iter().map(text).collect()
}

/// Writes down what it is asked.
#[derive(Default)]
pub struct FakeCloud(Mutex<(bool, Vec<String>)>);

impl FakeCloud {
    pub fn refuse(&self, refuse: bool) {
        self.0.lock().unwrap().0 = refuse;
    }

    pub fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }

    fn answer(&self, func: Func, node: &str, ip: IpAddr) -> Answer<'_> {
        let mut state = self.0.lock().unwrap();
        state.1.push(format!("{} {ip} {node}", func.name()));
        let refused = ProviderError::Refused {
            message: "no".into(),
        };
        let answer = if state.0 { Err(refused) } else { Ok(()) };
        Box::pin(std::future::ready(answer))
    }
}

impl IpProvider for FakeCloud {
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer(Func::Assign, node, ip)
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer(Func::Unassign, node, ip)
    }
}
