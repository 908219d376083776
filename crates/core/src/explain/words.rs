//! Causes, holders and workloads in words.

use crate::ipam::{
    key::{HolderKey, KeyParts},
    owner::{App, AppKind},
    slot::Cause,
    workload::Workload,
};

/// A cause in words.
pub fn told(cause: Cause) -> &'static str {
    match cause {
        Cause::PolicyOnDelete => "its release policy is on-delete",
        Cause::WorkloadGone => "its workload is gone",
        Cause::ScaledDown => "its workload no longer wants a pod of that number",
        Cause::GroupScaledDown => "its workload has more addresses than it wants",
        Cause::NoReplicas => "workloads of its kind have no replicas that could want it",
        Cause::PodNameWithoutIndex => "no pod will have that name again",
        Cause::StillWanted => "its workload still wants it",
        Cause::PolicyNever => "its release policy is never",
        Cause::WorkloadUnreadable => "nobody can tell what its workload wants",
        Cause::OutsideConfiguration => "it is in no range of the configuration any more",
    }
}

/// Who a key stands for, in words.
pub fn holder(key: &HolderKey) -> String {
    if let Some(vip) = key.vip() {
        return format!("VirtualIP {}/{}", vip.namespace, vip.name);
    }
    let Some(parts) = key.parts() else {
        return format!("{:?}", key.as_str());
    };
    let KeyParts {
        pool,
        namespace,
        app,
        pod,
        ..
    } = parts;
    match pool {
        _ if !pod.is_empty() => format!("pod {namespace}/{pod}"),
        Some(pool) if app.is_empty() => format!("pool {pool}"),
        _ => App::of_key(&parts, None)
            .map_or_else(|| format!("{namespace}/{app}"), |app| app_text(&app)),
    }
}

/// A workload in words, also when it is not known.
pub fn workload_text(workload: Option<&Workload>) -> String {
    workload.map_or_else(|| "its workload".into(), |workload| app_text(&workload.app))
}

/// A workload in words.
pub fn app_text(app: &App) -> String {
    let kind = match &app.kind {
        AppKind::Deployment => "Deployment",
        AppKind::ReplicaSet => "ReplicaSet",
        AppKind::StatefulSet => "StatefulSet",
        AppKind::Job => "Job",
        AppKind::DaemonSet => "DaemonSet",
        AppKind::Bare => return format!("pods without a workload in {}", app.namespace),
        AppKind::ReplicaSetOf(kind) | AppKind::Custom(kind) => &kind.kind,
    };
    format!("{kind} {}/{}", app.namespace, app.name)
}
