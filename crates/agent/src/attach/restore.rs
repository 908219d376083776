//! Attaching again what an address was taken off from.

use std::{collections::BTreeSet, net::IpAddr, path::Path};

use floe_core::{
    addr::canonical,
    cni::{
        args::{CniArgs, IPINFOS},
        call::{Call, Command},
        config::NetConf,
    },
    ipam::args::IpInfo,
    node::{
        arguments,
        state::{Attached, PodId, State},
    },
};
use floe_shell::logs;
use futures::future::join_all;
use serde_json::json;
use tracing::{info, warn};

use super::{AttachError, Attacher, Step, Surroundings, detach::Netns, version_of};
use crate::{
    permits::PermitError,
    pods::{PodError, Wanted},
    request::Request,
    state,
};

/// What a restore does to the networks of a pod.
struct Plan {
    /// The networks that had configured the address, as they were noted.
    again: Vec<Attached>,
    /// What goes down with them: every address that they had configured.
    affected: BTreeSet<IpAddr>,
    /// The addresses of the pod that were off before. All others of `affected` have to be there
    /// again whatever becomes of these.
    off: BTreeSet<IpAddr>,
    /// What they are to configure: all that the pod may have, by what was read before anything
    /// was touched.
    wanted: Vec<IpInfo>,
}

/// The addresses that networks were attached with, and the plugins called for it.
type Back = (BTreeSet<IpAddr>, Vec<Step>);

impl Attacher {
    /// Configures an address again that was taken off a running pod: detaches the networks that
    /// had configured it, and attaches them as they were. Whether there was anything to restore.
    ///
    /// The same permission is needed as for an ADD, for every address of the pod; it is read
    /// before anything is touched. Only addresses that are off as well, and that the pod may not
    /// have, are left out. Plugins may take long, so it is read again before each attempt to
    /// attach, which leaves out what is not the pod's any more. Other networks of the pod stay as
    /// they are.
    ///
    /// Everything that goes down with these networks is noted as taken off before that, so that
    /// an agent that is stopped in between, or that fails, finds all of it later. Where not
    /// all can be configured, [less of it](Plan::attempts) is.
    ///
    /// A plugin has less time than at an ADD. The caller holds the [turn](crate::turns) of the
    /// container meanwhile, and the runtime waits for that when the pod is deleted.
    pub async fn restore(&self, container: &str, ip: IpAddr) -> Result<bool, AttachError> {
        let ip = canonical(ip);
        let Some(before) = self.states.read(container).await? else {
            return Ok(false);
        };
        let is_off = |it: &Attached| it.taken_off.contains(&ip);
        if !before.attached.iter().any(is_off) {
            return Ok(false);
        }
        // Files of galaxy do not name the pod, and nothing else tells whose the address is.
        let Some(pod) = before.pod().cloned() else {
            return Err(AttachError::NotRestorable(container.to_owned()));
        };
        let again = configuring(&before, ip);
        let netns = again.iter().find_map(|it| it.netns.clone());
        let netns = netns.filter(|path| state::is_lasting(path) && Path::new(path).exists());
        let (Some(first), Some(netns)) = (again.first().cloned(), netns) else {
            return Err(AttachError::NotRestorable(container.to_owned()));
        };
        let plan = self.plan(&pod, &before, again, ip).await?;
        let request = request(container, &netns, &pod, &first)?;

        let marked = marked(&before, &plan.affected);
        self.states.write(container, &marked).await?;
        let call = &request.call;
        let (_, failed) = self.reverse(plan.again.clone(), call, Netns::Told).await;
        if !failed.is_empty() {
            return Err(AttachError::Detach(failed));
        }
        let (back, result) = self.attach_most(&plan, ip, &request, &pod).await;
        if let Some((back, steps)) = back {
            let is_whole = plan.affected.is_subset(&back);
            // What a network was given is noted in whole: by that the rest is restored later.
            let mut after = if is_whole {
                super::with(&marked, &steps)
            } else {
                marked
            };
            let is_back = |it: &IpAddr| back.contains(it) && plan.affected.contains(it);
            for attached in &mut after.attached {
                attached.taken_off.retain(|it| !is_back(it));
            }
            self.states.write(container, &after).await?;
        }
        if result.is_ok() {
            info!(container, %ip, "address is configured again");
        }
        result
    }

    /// What is to be done, or why not. Nothing is touched yet.
    async fn plan(
        &self,
        pod: &PodId,
        state: &State,
        again: Vec<Attached>,
        ip: IpAddr,
    ) -> Result<Plan, AttachError> {
        let all = again.first().map(Attached::addresses).unwrap_or_default();
        let affected: BTreeSet<IpAddr> = ips_of(&all)
            .into_iter()
            .filter(|it| {
                *it == ip
                    || again
                        .iter()
                        .any(|one| one.has_configured(*it) != Some(false))
            })
            .collect();
        let off: BTreeSet<IpAddr> = state
            .attached
            .iter()
            .flat_map(|it| it.taken_off.iter().copied())
            .collect();
        let may_lack = |it| it != ip && off.contains(&it);
        let wanted = self.permitted(pod, all, may_lack).await?;
        Ok(Plan {
            again,
            affected,
            off,
            wanted,
        })
    }

    /// Those of the pod's addresses that it may have, as their records say now. An address that
    /// it may not have is an error unless `may_lack` allows it to be left out. A record that
    /// cannot be read is always an error.
    async fn permitted(
        &self,
        pod: &PodId,
        all: Vec<IpInfo>,
        may_lack: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpInfo>, AttachError> {
        let wanted = Wanted {
            namespace: &pod.namespace,
            name: &pod.name,
            uid: Some(&pod.uid),
        };
        let found = self.pods.find(wanted).await?;
        let Some(records) = &self.records else {
            return Ok(all);
        };
        let asked = join_all(all.iter().map(|it| records.permit_directly(it, &found))).await;
        let mut permitted = Vec::new();
        for (info, answer) in all.into_iter().zip(asked) {
            match answer {
                Ok(()) => permitted.push(info),
                Err(error @ PermitError::Unreadable { .. }) => return Err(error.into()),
                Err(error) if may_lack(canonical(info.ip.addr())) => {
                    let (reason, ip) = (error.reason(), info.ip.addr());
                    info!(reason, %ip, error = %error, "address is not configured again");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(permitted)
    }

    /// Attaches the networks with the first of the attempts that works. What is there by then, and
    /// whether the address is; if not, the error is that of the first attempt.
    async fn attach_most(
        &self,
        plan: &Plan,
        ip: IpAddr,
        request: &Request,
        pod: &PodId,
    ) -> (Option<Back>, Result<bool, AttachError>) {
        let mut why = None;
        for wanted in plan.attempts(ip) {
            match self.attach_permitted(plan, wanted, ip, request, pod).await {
                Ok(Some(back)) => {
                    let is_back = back.0.contains(&ip);
                    let result = why.filter(|_| !is_back).map_or(Ok(true), Err);
                    return (Some(back), result);
                }
                // What is not permitted any more was reported.
                Ok(None) => {}
                Err(error) if why.is_none() => why = Some(error),
                Err(error) => {
                    let container = &*request.call.container;
                    let (reason, error) = (error.reason(), logs::with_causes(&error));
                    warn!(
                        reason,
                        container, error, "network is not attached with fewer addresses either"
                    );
                }
            }
        }
        (None, why.map_or(Ok(false), Err))
    }

    /// Attaches the networks with those of the addresses that the pod may have now. The one that
    /// is restored must not be missing, if it is wanted. `None` if nothing is left.
    async fn attach_permitted(
        &self,
        plan: &Plan,
        wanted: Vec<IpInfo>,
        ip: IpAddr,
        request: &Request,
        pod: &PodId,
    ) -> Result<Option<Back>, AttachError> {
        let permitted = match self.permitted(pod, wanted.clone(), |it| it != ip).await {
            // Addresses that worked a moment ago must not stay down because the API server is
            // away: what was read before they were detached counts.
            Err(
                AttachError::Pod(PodError::Unreadable { .. })
                | AttachError::Permit(PermitError::Unreadable { .. }),
            ) if plan.was_up(&wanted) => wanted,
            permitted => permitted?,
        };
        let ips = ips_of(&permitted);
        if ips.is_disjoint(&plan.affected) {
            return Ok(None);
        }
        let steps = self.attach_again(plan, &permitted, request, pod).await?;
        Ok(Some((ips, steps)))
    }

    /// Attaches the networks with these addresses, which all have to be in their results. What
    /// fails is undone.
    async fn attach_again(
        &self,
        plan: &Plan,
        wanted: &[IpInfo],
        request: &Request,
        pod: &PodId,
    ) -> Result<Vec<Step>, AttachError> {
        let mut args = plan.again[0].args.clone();
        let text = serde_json::to_string(wanted);
        let text = text.expect("a list of texts and numbers always has a JSON form");
        args.insert(IPINFOS.to_owned(), text);
        let surroundings = Surroundings {
            cni_args: arguments::all(&request.call.args, &args).map_err(AttachError::Arguments)?,
            args,
            pod: pod.clone(),
            request,
        };
        let step = |mut attached: Attached| {
            attached.taken_off.clear();
            attached.conf.remove("prevResult");
            let network = format!("{}@{}", attached.kind, attached.ifname);
            Step { attached, network }
        };
        let mut steps: Vec<Step> = plan.again.iter().cloned().map(step).collect();
        let (called, error) = match self.run(&mut steps, &surroundings).await {
            Ok(_) => match lacking(plan, wanted, &steps) {
                None => return Ok(steps),
                Some(ip) => (steps.len(), AttachError::NotConfigured(ip)),
            },
            Err(failed) => failed,
        };
        let called = steps[..called].iter().map(|step| step.attached.clone());
        let (_, left) = self
            .reverse(called.collect(), &request.call, Netns::Told)
            .await;
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        Err(error.with_leftovers(&left))
    }
}

impl Plan {
    /// Whether all of these addresses were configured until they were detached to restore
    /// another one.
    fn was_up(&self, wanted: &[IpInfo]) -> bool {
        ips_of(wanted).is_disjoint(&self.off)
    }

    /// What to attach the networks with, until one of it works: everything; then nothing that was
    /// off but the address itself, since any of these may be what fails; then only what was there
    /// before.
    fn attempts(&self, ip: IpAddr) -> Vec<Vec<IpInfo>> {
        let those = |is_wanted: &dyn Fn(IpAddr) -> bool| -> Vec<IpInfo> {
            let wanted = self.wanted.iter().copied();
            wanted
                .filter(|it| is_wanted(canonical(it.ip.addr())))
                .collect()
        };
        let alone = those(&|it| it == ip || !self.off.contains(&it));
        let before = those(&|it| !self.off.contains(&it));
        let mut attempts = vec![self.wanted.clone()];
        attempts.extend((alone.len() < self.wanted.len()).then_some(alone));
        let is_needed = !ips_of(&before).is_disjoint(&self.affected);
        attempts.extend(is_needed.then_some(before));
        attempts
    }
}

fn ips_of(infos: &[IpInfo]) -> BTreeSet<IpAddr> {
    infos.iter().map(|it| canonical(it.ip.addr())).collect()
}

/// The first address that networks had configured before, and have not now.
fn lacking(plan: &Plan, wanted: &[IpInfo], steps: &[Step]) -> Option<IpAddr> {
    let was_told = |it: &IpAddr| {
        let mut before = plan.again.iter();
        before.any(|one| one.has_configured(*it) == Some(true))
    };
    let is_told = |it: &IpAddr| {
        let mut now = steps.iter();
        now.any(|step| step.attached.has_configured(*it) == Some(true))
    };
    let mut wanted = ips_of(wanted).into_iter();
    wanted.find(|it| was_told(it) && !is_told(it))
}

/// The state in which these addresses are off, too.
fn marked(state: &State, off: &BTreeSet<IpAddr>) -> State {
    let mut state = state.clone();
    for attached in &mut state.attached {
        let own = ips_of(&attached.addresses());
        attached.taken_off.extend(own.intersection(off));
    }
    state
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
