//! What was announced since this node holds it: whoever loses the link must give it to
//! somebody who has one, while an address that never had a link here is merely inside.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_core::vip::{VipId, keeper::Role};

use super::{Order, Plan, Unreachable};

/// What was announced of each object that this node holds, and on which link a person
/// wants that.
#[derive(Debug, Default)]
pub struct Heard(BTreeMap<VipId, (String, BTreeSet<IpAddr>)>);

impl Heard {
    /// Takes in what is announced by a plan, and marks there what was and is not any more.
    /// Only those count that have been held without a break: with each new holding it
    /// begins anew, so that nodes that have all lost their links do not play ball.
    pub fn judge(&mut self, order: &Order, plan: &mut Plan) {
        let roles = &order.serving.roles;
        self.0.retain(|id, _| {
            let role = roles.get(id).map(|it| &it.role);
            matches!(role, Some(Role::Holder(_)))
        });
        for (id, served) in roles {
            let is_holder = matches!(served.role, Role::Holder(_));
            let Some(finding) = plan.findings.get_mut(id).filter(|_| is_holder) else {
                continue;
            };
            // Of what cannot be served it is not known.
            if finding.trouble.is_some() {
                continue;
            }
            let chosen = order.details.get(id).map(|it| it.interface.as_str());
            let chosen = chosen.unwrap_or_default();
            let (link, heard) = self.0.entry(id.clone()).or_default();
            if link != chosen {
                chosen.clone_into(link);
                heard.clear();
            }
            heard.retain(|ip| served.addresses.contains(ip));
            let is_told = |ip: &IpAddr| plan.answers.values().any(|all| all.contains(ip));
            if heard.iter().any(|ip| !is_told(ip)) {
                finding.unreachable = Some(Unreachable::LinkLost);
            }
            heard.extend(served.addresses.iter().filter(|ip| is_told(ip)));
        }
    }
}
