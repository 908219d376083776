//! What a running cluster is asked to do: mostly to break, and to heal.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use super::addresses::{CONTROL_PLANE, Seat};
use super::program::Program;
use super::{BURIAL, Supervisor, network};
use crate::cgroup::Cgroup;
use crate::cluster::control::{ProgramName, Reply, Request, Status};
use crate::host::Role;

/// How often the processes of a node are told to stand still, how often is looked whether
/// they do, and how many times each time.
const FREEZES: u32 = 20;
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 20;

impl Supervisor {
    /// Does what was asked.
    pub async fn handle(&mut self, request: Request) -> Result<Reply> {
        self.is_broken = match request {
            Request::Heal => false,
            Request::Status | Request::Down => self.is_broken,
            // Mending one thing does not tell whether others are whole.
            Request::PowerOff(_)
            | Request::PowerOn(_)
            | Request::Cable { .. }
            | Request::Pause { .. }
            | Request::Stop { .. }
            | Request::Start(_)
            | Request::CutOff { .. }
            | Request::Storage(_)
            | Request::ReadAnew
            | Request::Slow { .. } => true,
        };
        match request {
            Request::Status => return Ok(Reply::Status(self.status()?)),
            Request::PowerOff(node) => self.power_off(&node)?,
            Request::PowerOn(node) => self.power_on(self.node(&node)?).await?,
            Request::Cable { host, plugged } => {
                network::cable(&self.host(CONTROL_PLANE)?, self.seat(&host)?, plugged)?;
            }
            Request::Pause { node, paused } => self.pause(&node, paused).await?,
            Request::Stop { program, kill } => self.program(&program)?.stop(kill).await?,
            Request::Start(program) => {
                let host = self.host(&program.host)?;
                self.program(&program)?.restart(&host)?;
            }
            Request::CutOff { host, cut } => self.cut_off(host.as_deref(), cut)?,
            Request::Slow { milliseconds } => {
                let gate = self.gate.as_ref().context("the gate is not open yet")?;
                gate.slow(Duration::from_millis(milliseconds));
            }
            Request::Storage(change) => self.change_storage(&change).await?,
            Request::ReadAnew => self.read_anew().await?,
            Request::Heal => self.heal().await?,
            Request::Down => {}
        }
        Ok(Reply::Done)
    }

    fn status(&mut self) -> Result<Status> {
        Ok(Status {
            spec: self.spec.clone(),
            supervisor: std::process::id(),
            since: self.since,
            hosts: self
                .hosts
                .values()
                .map(|host| host.address().clone())
                .collect(),
            programs: self.programs.values_mut().map(Program::status).collect(),
            is_broken: self.is_broken,
            memory: self.cgroup.memory()?,
        })
    }

    fn power_off(&mut self, node: &str) -> Result<()> {
        let seat = self.node(node)?;
        let Some(host) = self.hosts.remove(node) else {
            bail!("{node} is switched off already");
        };
        network::unplug(&self.host(CONTROL_PLANE)?, seat)?;
        // A frozen process would not die.
        self.cgroup.child(node).thaw()?;
        host.power_off();
        // No control group survives a power-off; a kubelet that finds some
        // afterwards would ask long for the dead of each.
        self.cgroup.child(node).remove(BURIAL)?;
        Ok(())
    }

    async fn power_on(&mut self, seat: Seat) -> Result<()> {
        if self.hosts.contains_key(&seat.name()) {
            bail!("{} is switched on already", seat.name());
        }
        let disk = self.paths.disks().join(seat.name());
        let host = self.boot(seat, &Role::Node { disk })?;
        network::plug_in(&self.host(CONTROL_PLANE)?, &host, seat, &self.seats)?;
        let program = |name: &str| ProgramName::new(seat.name(), name);
        self.program(&program("containerd"))?.restart(&host)?;
        self.wait_for_runtime(&host).await?;
        self.program(&program("kubelet"))?.restart(&host)?;
        self.program(&program("kube-proxy"))?.restart(&host)?;
        Ok(())
    }

    async fn pause(&self, node: &str, paused: bool) -> Result<()> {
        self.node(node)?;
        let cgroup = self.cgroup.child(node);
        if !paused {
            return Ok(cgroup.thaw()?);
        }
        for _ in 0..FREEZES {
            if freezes(&cgroup).await? {
                return Ok(());
            }
            // One thread of a program waits for another to end, which stands still already:
            // that is never over. So they run for a moment.
            cgroup.thaw()?;
            sleep(LOOK).await;
        }
        bail!("the processes of {node} do not stand still")
    }

    /// Cuts hosts off from the control plane, or ends that; nobody means all.
    fn cut_off(&mut self, host: Option<&str>, cut: bool) -> Result<()> {
        let names: Vec<String> = match host {
            Some(name) => vec![self.seat(name)?.name()],
            None => self.seats.iter().map(|seat| seat.name()).collect(),
        };
        for name in names {
            if name == CONTROL_PLANE {
                continue;
            }
            if cut {
                self.cut_off.insert(name);
            } else {
                self.cut_off.remove(&name);
            }
        }
        let seats = self
            .cut_off
            .iter()
            .map(|name| self.seat(name))
            .collect::<Result<Vec<_>>>()?;
        network::cut_off(&self.host(CONTROL_PLANE)?, &seats)
    }

    /// Mends everything that requests have broken.
    async fn heal(&mut self) -> Result<()> {
        if let Some(gate) = &self.gate {
            gate.slow(Duration::ZERO);
        }
        self.cut_off(None, false)?;
        for seat in self.seats.clone() {
            match seat {
                Seat::ControlPlane => {}
                Seat::Node(_) if !self.hosts.contains_key(&seat.name()) => {
                    self.power_on(seat).await?;
                }
                Seat::Node(_) | Seat::Outside => {
                    self.cgroup.child(&seat.name()).thaw()?;
                    network::cable(&self.host(CONTROL_PLANE)?, seat, true)?;
                }
            }
        }
        let ended: Vec<ProgramName> = self
            .programs
            .values_mut()
            .map(Program::status)
            .filter(|status| status.ended.is_some())
            .map(|status| status.name)
            .collect();
        for name in ended {
            let host = self.host(&name.host)?;
            self.program(&name)?.restart(&host)?;
        }
        Ok(())
    }

    fn seat(&self, name: &str) -> Result<Seat> {
        let seat = self.seats.iter().find(|seat| seat.name() == name);
        seat.copied()
            .with_context(|| format!("there is no host {name}"))
    }

    fn node(&self, name: &str) -> Result<Seat> {
        match self.seat(name)? {
            seat @ Seat::Node(_) => Ok(seat),
            Seat::ControlPlane | Seat::Outside => bail!("{name} is no node"),
        }
    }
}

/// Has every process stand still; whether all of them soon do. The kernel stops them one by one.
async fn freezes(cgroup: &Cgroup) -> Result<bool> {
    cgroup.freeze()?;
    for _ in 0..LOOKS {
        if cgroup.is_frozen()? {
            return Ok(true);
        }
        sleep(LOOK).await;
    }
    Ok(false)
}
