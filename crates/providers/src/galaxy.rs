//! The client of a provider written for galaxy-ipam.
//!
//! The protocol is `proto/galaxy.proto`: two unary gRPC calls over plain TCP.
//! The first call connects. A connection that broke is made anew by the next
//! call, so the provider may start later than floe, restart, or move to
//! another address behind its name.
//!
//! Compat: a transport error, a missing reply and `success = false` are all
//! failures. Each call has 60 s and tells the provider so (`grpc-timeout`). An
//! idle connection is pinged every 2 minutes and given up when the ping is not
//! answered within 1 minute.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use thiserror::Error;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint, Uri},
};

use crate::port::{Answer, IpProvider, ProviderError};
use wire::{
    AssignIpRequest, UnAssignIpRequest, ip_provider_service_client::IpProviderServiceClient,
};

#[cfg(test)]
mod tests;
pub(crate) mod wire;

/// A provider at the other end of a gRPC channel.
#[derive(Clone, Debug)]
pub struct Galaxy {
    client: IpProviderServiceClient<Channel>,
    call_timeout: Duration,
}

/// How long to wait for what. The default is what galaxy-ipam does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One call, the connection included.
    pub call: Duration,
    /// One attempt to connect.
    pub connect: Duration,
    /// The time between two pings.
    pub ping_every: Duration,
    /// The answer to a ping.
    pub ping_ack: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            call: Duration::from_mins(1),
            connect: Duration::from_secs(5),
            ping_every: Duration::from_mins(2),
            ping_ack: Duration::from_mins(1),
        }
    }
}

/// The configured address of the provider is not usable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cloud provider address {address:?} is not host:port")]
pub struct AddressError {
    /// What was configured.
    pub address: String,
}

impl AddressError {
    /// The stable reason for logs and events.
    pub fn reason(&self) -> &'static str {
        "ProviderAddressInvalid"
    }
}

impl Galaxy {
    /// A client of the provider at `host:port`; no connection is made yet. It
    /// has to be called inside of a tokio runtime.
    pub fn new(address: &str, timing: Timing) -> Result<Self, AddressError> {
        let channel = Endpoint::from(uri(address)?)
            .connect_timeout(timing.connect)
            .http2_keep_alive_interval(timing.ping_every)
            .keep_alive_timeout(timing.ping_ack)
            .keep_alive_while_idle(true)
            .connect_lazy();
        Ok(Self {
            client: IpProviderServiceClient::new(channel),
            call_timeout: timing.call,
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.call_timeout);
        request
    }

    /// Waits for a call that answers with `success` and `msg`.
    async fn settle(
        &self,
        call: impl Future<Output = Result<(bool, String), Status>>,
    ) -> Result<(), ProviderError> {
        let started = Instant::now();
        let timeout = ProviderError::Timeout {
            after: self.call_timeout,
        };
        let Ok(reply) = tokio::time::timeout(self.call_timeout, call).await else {
            return Err(timeout);
        };
        match reply {
            Ok((true, _)) => Ok(()),
            Ok((false, message)) => Err(ProviderError::Refused { message }),
            // The channel watches the time as well and may be the first to
            // notice, under a name that it also has for other things.
            Err(_) if started.elapsed() >= self.call_timeout => Err(timeout),
            Err(status) => Err(classify(&status, timeout)),
        }
    }
}

impl IpProvider for Galaxy {
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        let request = self.request(AssignIpRequest {
            node_name: node.to_owned(),
            ip_address: bare(ip),
        });
        let mut client = self.client.clone();
        Box::pin(self.settle(async move {
            let reply = client.assign_ip(request).await?.into_inner();
            Ok((reply.success, reply.msg))
        }))
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        let request = self.request(UnAssignIpRequest {
            node_name: node.to_owned(),
            ip_address: bare(ip),
        });
        let mut client = self.client.clone();
        Box::pin(self.settle(async move {
            let reply = client.un_assign_ip(request).await?.into_inner();
            Ok((reply.success, reply.msg))
        }))
    }
}

/// The address as providers expect it: a v4 address never in its v6 form.
fn bare(ip: IpAddr) -> String {
    ip.to_canonical().to_string()
}

fn uri(address: &str) -> Result<Uri, AddressError> {
    let refused = || AddressError {
        address: address.to_owned(),
    };
    let uri: Uri = format!("http://{address}").parse().map_err(|_| refused())?;
    let plain = uri
        .authority()
        .is_some_and(|authority| authority.as_str() == address && !address.contains('@'));
    let complete = uri.host().is_some_and(|host| !host.is_empty())
        && uri.port_u16().is_some_and(|port| port != 0);
    (plain && complete).then_some(uri).ok_or_else(refused)
}

fn classify(status: &Status, timeout: ProviderError) -> ProviderError {
    // Only what the transport made up has a source; a provider's own status
    // comes over the wire and has none.
    if let Some(source) = std::error::Error::source(status) {
        return ProviderError::Unreachable {
            message: root_cause(source),
        };
    }
    let message = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::DeadlineExceeded => timeout,
        Code::Unavailable => ProviderError::Unreachable { message },
        Code::Internal if status.message() == wire::NO_MESSAGE => ProviderError::NoReply,
        Code::Ok
        | Code::Aborted
        | Code::Cancelled
        | Code::DataLoss
        | Code::Internal
        | Code::ResourceExhausted
        | Code::Unknown => ProviderError::Failed { message },
        Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::NotFound
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => ProviderError::Rejected { message },
    }
}

/// The last of a chain of errors: the upper ones only say "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    last.to_string()
}
