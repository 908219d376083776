//! Who finds a node for pods that want addresses.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration;

/// How pods that want addresses come to their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scheduling {
    /// kube-scheduler asks floe, as its extender
    Extender,
    /// Pods wait at a scheduling gate until they have addresses; the scheduler knows
    /// nothing of floe
    Gates,
}

/// How pods are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingSettings {
    /// On which way.
    pub mode: Scheduling,
    /// The most that a node offers of the resource; `None`: all addresses that it can
    /// carry.
    pub capacity: Option<u64>,
    /// How long no node may have room for a pod before it is given up.
    pub patience: Duration,
}

/// The flags about scheduling.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduling")]
pub struct SchedulingFlags {
    /// How pods that want addresses come to their nodes. `gates` is for clusters whose
    /// scheduler cannot be configured
    #[arg(
        long,
        env = "FLOE_SCHEDULING",
        value_name = "WAY",
        default_value = "extender"
    )]
    scheduling: Scheduling,

    /// With `--scheduling=gates`: the most of tke.cloud.tencent.com/eni-ip that each node
    /// offers [default: as many as there are addresses for it]
    #[arg(long, env = "FLOE_ENI_IP_CAPACITY", value_name = "COUNT")]
    eni_ip_capacity: Option<u64>,

    /// With `--scheduling=gates`: how long no node may have room for a pod that has its
    /// addresses before the pod is evicted, to get others
    #[arg(
        long, env = "FLOE_GATES_UNSCHEDULABLE_TIMEOUT", value_name = "DURATION",
        default_value = "2m", value_parser = duration,
    )]
    gates_unschedulable_timeout: Duration,
}

impl SchedulingFlags {
    /// What they mean.
    pub fn settings(&self) -> SchedulingSettings {
        SchedulingSettings {
            mode: self.scheduling,
            capacity: self.eni_ip_capacity,
            patience: self.gates_unschedulable_timeout,
        }
    }
}
