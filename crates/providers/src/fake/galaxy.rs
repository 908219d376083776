//! A provider on a local port that remembers what it was asked and answers as
//! it is told. For tests only.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{runtime, sync::watch};
use tonic::{
    Code, Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::{
    galaxy::wire::{
        AssignIpReply, AssignIpRequest, UnAssignIpReply, UnAssignIpRequest,
        ip_provider_service_server::{IpProviderService, IpProviderServiceServer},
    },
    port::Func,
};

/// How a call is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// With success.
    #[default]
    Obey,
    /// With `success = false` and this message.
    Refuse(String),
    /// With a gRPC status: its number and this message.
    Fail(i32, String),
    /// Not at all, until it is told to behave otherwise.
    Hold,
}

/// A call that has arrived, with the texts as they came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// What was asked.
    pub func: Func,
    /// The `node_name`.
    pub node: String,
    /// The `IP_address`.
    pub ip: String,
}

/// The provider. It has a runtime of its own, so that it can vanish with all
/// its connections, as a process that is killed does.
pub struct FakeCloud {
    address: SocketAddr,
    service: Service,
    running: Option<runtime::Runtime>,
}

impl FakeCloud {
    /// Starts one on a free port of 127.0.0.1.
    pub fn start() -> io::Result<Self> {
        let mut cloud = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            service: Service::default(),
            running: None,
        };
        cloud.come_back()?;
        Ok(cloud)
    }

    /// Starts one that others reach: on a socket that is bound already, in whatever
    /// network. Once it went away it cannot come back.
    pub fn start_on(listener: std::net::TcpListener) -> io::Result<Self> {
        let mut cloud = Self {
            address: listener.local_addr()?,
            service: Service::default(),
            running: None,
        };
        listener.set_nonblocking(true)?;
        cloud.serve(|| tokio::net::TcpListener::from_std(listener).map(TcpIncoming::from))?;
        Ok(cloud)
    }

    /// Its `host:port`, which stays the same when it goes away and comes back.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Tells how calls are answered from now on, those on hold included.
    pub fn behave(&self, behaviour: Behaviour) {
        self.service.plan.send_modify(|plan| plan.usual = behaviour);
    }

    /// The same for the calls about one address only.
    pub fn behave_for(&self, ip: IpAddr, behaviour: Behaviour) {
        self.service.plan.send_modify(|plan| {
            plan.special.insert(ip.to_string(), behaviour);
        });
    }

    /// All calls so far, in the order in which they arrived.
    pub fn calls(&self) -> Vec<Arrived> {
        self.service.arrived.borrow().clone()
    }

    /// Waits until so many calls have arrived; returns all of them.
    pub async fn until_calls(&self, count: usize) -> Vec<Arrived> {
        let mut arrived = self.service.arrived.subscribe();
        match arrived.wait_for(|calls| calls.len() >= count).await {
            Ok(calls) => calls.clone(),
            // The sender lives in `self`, so this does not happen.
            Err(_) => self.calls(),
        }
    }

    /// On which node each address lives, after all calls that succeeded.
    pub fn assigned(&self) -> BTreeMap<String, String> {
        self.service.assigned.borrow().clone()
    }

    /// Goes away at once: open calls and connections break, nobody listens.
    pub async fn go_away(&mut self) {
        if let Some(runtime) = self.running.take() {
            let stop = move || runtime.shutdown_timeout(Duration::from_secs(10));
            // A panic in there would be one of the runtime itself.
            let _ = tokio::task::spawn_blocking(stop).await;
        }
    }

    /// Listens again on the same port, with the same memory and behaviour.
    pub fn come_back(&mut self) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let address = self.address;
        self.serve(|| TcpIncoming::bind(address))
    }

    fn serve(&mut self, listen: impl FnOnce() -> io::Result<TcpIncoming>) -> io::Result<()> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let incoming = {
            let _inside = runtime.enter();
            listen()?
        };
        self.address = incoming.local_addr()?;
        let service = IpProviderServiceServer::new(self.service.clone());
        runtime.spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        self.running = Some(runtime);
        Ok(())
    }
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        if let Some(runtime) = self.running.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Clone, Default)]
struct Service {
    plan: Arc<watch::Sender<Plan>>,
    arrived: Arc<watch::Sender<Vec<Arrived>>>,
    assigned: Arc<watch::Sender<BTreeMap<String, String>>>,
}

#[derive(Clone, Debug, Default)]
struct Plan {
    usual: Behaviour,
    special: BTreeMap<String, Behaviour>,
}

impl Plan {
    fn of(&self, ip: &str) -> &Behaviour {
        self.special.get(ip).unwrap_or(&self.usual)
    }
}

impl Service {
    async fn answer(&self, call: Arrived) -> Result<(bool, String), Status> {
        let mut plan = self.plan.subscribe();
        self.arrived.send_modify(|calls| calls.push(call.clone()));
        let behaviour = plan
            .wait_for(|plan| *plan.of(&call.ip) != Behaviour::Hold)
            .await
            .map_err(|_| Status::aborted("the fake is gone"))?
            .of(&call.ip)
            .clone();
        match behaviour {
            Behaviour::Refuse(message) => Ok((false, message)),
            Behaviour::Fail(code, message) => Err(Status::new(Code::from(code), message)),
            Behaviour::Obey | Behaviour::Hold => {
                self.assigned.send_modify(|assigned| match call.func {
                    Func::Assign => {
                        assigned.insert(call.ip, call.node);
                    }
                    Func::Unassign => {
                        assigned.remove(&call.ip);
                    }
                });
                Ok((true, String::new()))
            }
        }
    }
}

#[tonic::async_trait]
impl IpProviderService for Service {
    async fn assign_ip(
        &self,
        request: Request<AssignIpRequest>,
    ) -> Result<Response<AssignIpReply>, Status> {
        let AssignIpRequest {
            node_name: node,
            ip_address: ip,
        } = request.into_inner();
        let func = Func::Assign;
        let (success, msg) = self.answer(Arrived { func, node, ip }).await?;
        Ok(Response::new(AssignIpReply { success, msg }))
    }

    async fn un_assign_ip(
        &self,
        request: Request<UnAssignIpRequest>,
    ) -> Result<Response<UnAssignIpReply>, Status> {
        let UnAssignIpRequest {
            node_name: node,
            ip_address: ip,
        } = request.into_inner();
        let func = Func::Unassign;
        let (success, msg) = self.answer(Arrived { func, node, ip }).await?;
        Ok(Response::new(UnAssignIpReply { success, msg }))
    }
}
