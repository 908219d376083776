//! Attaching again what an address was taken off from.

use std::{net::IpAddr, path::Path};

use floe_core::{
    addr::canonical,
    cni::{
        args::CniArgs,
        call::{Call, Command},
        config::NetConf,
    },
    node::{
        arguments,
        state::{Attached, PodId, State},
    },
};
use futures::future::try_join_all;
use serde_json::json;
use tracing::info;

use super::{AttachError, Attacher, Step, Surroundings, detach::Netns, version_of};
use crate::{pods::Wanted, request::Request, state};

impl Attacher {
    /// Configures an address again that was taken off a running pod: detaches the networks that
    /// had configured it, and attaches them as they were. Whether there was anything to restore.
    ///
    /// The same permission is needed as for an ADD, for every address of these networks. Other
    /// networks of the pod stay as they are. A failure leaves the address marked as taken off, so
    /// that it can be tried again.
    ///
    /// The caller holds the [turn](crate::turns) of the container.
    pub async fn restore(&self, container: &str, ip: IpAddr) -> Result<bool, AttachError> {
        let ip = canonical(ip);
        let Some(before) = self.states.read(container).await? else {
            return Ok(false);
        };
        let is_off = |it: &Attached| it.taken_off.contains(&ip);
        let Some(pod) = before
            .pod()
            .cloned()
            .filter(|_| before.attached.iter().any(is_off))
        else {
            return Ok(false);
        };
        let again = configuring(&before, ip);
        let netns = again.iter().find_map(|it| it.netns.clone());
        let netns = netns.filter(|path| state::is_lasting(path) && Path::new(path).exists());
        let (Some(first), Some(netns)) = (again.first(), netns) else {
            return Err(AttachError::NotRestorable(container.to_owned()));
        };
        self.permit_again(&pod, first).await?;

        let request = request(container, &netns, &pod, first)?;
        let surroundings = Surroundings {
            cni_args: arguments::all(&request.call.args, &first.args)
                .map_err(AttachError::Arguments)?,
            args: first.args.clone(),
            pod,
            request: &request,
        };
        let (_, failed) = self
            .reverse(again.clone(), &request.call, Netns::Told)
            .await;
        if !failed.is_empty() {
            return Err(AttachError::Detach(failed));
        }
        let step = |mut attached: Attached| {
            attached.taken_off.clear();
            attached.conf.remove("prevResult");
            let network = format!("{}@{}", attached.kind, attached.ifname);
            Step { attached, network }
        };
        let mut steps: Vec<Step> = again.into_iter().map(step).collect();
        if let Err((called, error)) = self.run(&mut steps, &surroundings).await {
            let called = steps[..called].iter().map(|step| step.attached.clone());
            let (_, left) = self
                .reverse(called.collect(), &request.call, Netns::Told)
                .await;
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            return Err(error.with_leftovers(&left));
        }
        let mut after = super::with(&before, &steps);
        for attached in &mut after.attached {
            attached.taken_off.remove(&ip);
        }
        self.states.write(container, &after).await?;
        info!(container, %ip, "address is configured again");
        Ok(true)
    }

    async fn permit_again(&self, pod: &PodId, attached: &Attached) -> Result<(), AttachError> {
        let wanted = Wanted {
            namespace: &pod.namespace,
            name: &pod.name,
            uid: Some(&pod.uid),
        };
        let found = self.pods.find(wanted).await?;
        if let Some(records) = &self.records {
            let claimed = attached.addresses();
            try_join_all(claimed.iter().map(|it| records.permit(it, &found))).await?;
        }
        Ok(())
    }
}

/// What was noted of the networks that had configured an address. Where no result is noted, a
/// single network must be the one.
fn configuring(state: &State, ip: IpAddr) -> Vec<Attached> {
    let all = &state.attached;
    let network = |it: &Attached| (it.kind.clone(), it.ifname.clone());
    let named: Vec<_> = all
        .iter()
        .filter(|it| it.has_configured(ip) == Some(true))
        .map(network)
        .collect();
    let is_single = all.iter().all(|it| network(it) == network(&all[0]));
    let is_untold = all.iter().all(|it| it.has_configured(ip).is_none());
    let of = |it: &&Attached| named.contains(&network(it)) || is_single && is_untold;
    all.iter().filter(of).cloned().collect()
}

/// The call of a runtime that attaches the pod, as far as plugins look at it.
fn request(
    container: &str,
    netns: &str,
    pod: &PodId,
    attached: &Attached,
) -> Result<Request, AttachError> {
    let PodId {
        namespace,
        name,
        uid,
    } = pod;
    let args = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};\
         K8S_POD_INFRA_CONTAINER_ID={container};K8S_POD_UID={uid}"
    );
    let config = json!({
        "cniVersion": version_of(&attached.conf).as_str(),
        "name": attached.kind,
        "type": "galaxy-sdn",
    });
    let config = NetConf::parse_for(config.to_string().as_bytes(), Command::Add);
    let unusable = |_| AttachError::NotRestorable(container.to_owned());
    Ok(Request {
        call: Call {
            command: Command::Add,
            container: container.to_owned(),
            netns: netns.to_owned(),
            ifname: attached.ifname.clone(),
            args: CniArgs::parse(&args).map_err(AttachError::Claim)?,
            path: Vec::new(),
        },
        config: config.map_err(unusable)?,
    })
}
