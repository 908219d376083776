//! What the scheduler asks before it has chosen a node: gather, decide in
//! `floe_core::schedule`, report. Nothing is written to the API server here.
//!
//! A pod that is refused wherever it could run is answered node by node, in
//! `failedAndUnresolvableNodes`: it then sleeps until it is woken. Only what may be
//! over in a moment is an `error`, after which the scheduler tries again blindly.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use floe_api::extender::{
    FilterAnswer, HostScore, Nodes, Offer, PodRef, PreemptAnswer, PreemptRequest, Text, Verdict,
};
use floe_core::schedule::{filter, preempt, refusal::NodeRefusal, score, wake};
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::debug;

use crate::{
    claims::{Claim, ClaimError, Claims},
    clock,
    cluster::{Cluster, Pod},
    metrics::Metrics,
    report::Reporter,
    store::{NOT_READY, Store},
    turns::Turns,
    waiting::Waiting,
};

/// How long what filter promises is set aside. The scheduler binds within
/// milliseconds, unless other plugins let the pod wait.
pub const PROMISE: Duration = Duration::from_secs(30);

/// Answers the scheduler.
#[derive(Clone)]
pub struct Desk {
    /// What pods ask for.
    pub claims: Claims,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Who waits.
    pub waiting: Waiting,
    /// Who is being bound: the promise of a bind stays.
    pub turns: Turns,
    /// Where it is told.
    pub reporter: Reporter,
    /// Where it is counted.
    pub metrics: Metrics,
}

/// Why a question is not answered from the books.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    /// The pod is none of floe's business.
    #[error("the pod wants no address")]
    NotWanted,
    /// The caches are not complete yet.
    #[error("not ready yet, waiting for: {missing}")]
    Cold { missing: String },
    /// Running pods come first, and not all of them were looked at.
    #[error("NotReady: {NOT_READY}")]
    Adopting,
    /// What the pod asks for cannot be told.
    #[error("{error}")]
    NoClaim {
        pod: Option<Arc<Pod>>,
        error: ClaimError,
    },
}

impl Desk {
    /// Which of the offered nodes can run the pod.
    pub async fn filter<'a>(&self, offer: &'a Offer<'a>) -> FilterAnswer<'a> {
        let start = Instant::now();
        let (answer, succeeded) = match self.claim(&offer.pod).await {
            Ok(claim) => match self.sort(claim, &offer.nodes) {
                Ok(sorted) => sorted,
                Err(unanswered) => (self.turn_down(&unanswered, &offer.nodes), false),
            },
            Err(Unanswered::NotWanted) => return offer.nodes.pass(),
            Err(unanswered) => (self.turn_down(&unanswered, &offer.nodes), false),
        };
        self.metrics.answered("filter", start.elapsed(), succeeded);
        answer
    }

    /// Which of the offered nodes it should rather run on.
    ///
    /// The scheduler adds what is answered to scores of its own, so that only differences
    /// matter: the answer names the nodes that are better than the worst of them, and by how
    /// much. Where all are alike, that is nobody, however many nodes there are.
    pub async fn prioritize<'a>(&self, offer: &'a Offer<'a>) -> Vec<HostScore<'a>> {
        let start = Instant::now();
        let claim = match self.claim(&offer.pod).await {
            Ok(claim) => claim,
            Err(unanswered) => {
                if !matches!(unanswered, Unanswered::NotWanted) {
                    debug!(why = %unanswered, "no node is better than another");
                    self.metrics.answered("priority", start.elapsed(), false);
                }
                return Vec::new();
            }
        };
        let offers = self.offers(offer.nodes.names());
        let scores = self
            .store
            .read(|books| score::score(books.ledger(), &claim.claimant, &offers));
        self.metrics.answered("priority", start.elapsed(), true);
        let worst = scores.iter().map(|(_, score)| *score).min().unwrap_or(0);
        let better = scores.into_iter().filter(|(_, score)| *score > worst);
        better
            .map(|(host, score)| HostScore {
                host,
                score: (score - worst).into(),
            })
            .collect()
    }

    /// On which nodes others may be stopped for it.
    ///
    /// Compat: all of them where floe cannot or need not tell.
    pub async fn preempt<'r, 'a>(&self, request: &'r PreemptRequest<'a>) -> PreemptAnswer<'r, 'a> {
        let start = Instant::now();
        let claim = match self.claim(&request.pod).await {
            Ok(claim) => claim,
            Err(unanswered) => {
                if !matches!(unanswered, Unanswered::NotWanted) {
                    debug!(why = %unanswered, "all nodes stay");
                    self.metrics.answered("preempt", start.elapsed(), false);
                }
                return request.keep(|_| true);
            }
        };
        let candidates = self.offers(request.victims.keys().map(|node| &**node));
        let kept = self
            .store
            .read(|books| preempt::preempt(books.ledger(), &claim.claimant, &candidates));
        let kept: BTreeSet<&str> = kept.into_iter().collect();
        self.metrics.answered("preempt", start.elapsed(), true);
        request.keep(|node| kept.contains(node))
    }

    async fn claim(&self, pod: &PodRef) -> Result<Claim, Unanswered> {
        let pod = match self.claims.pod(pod).await {
            Ok(pod) => pod,
            Err(error) => return Err(Unanswered::NoClaim { pod: None, error }),
        };
        if !pod.wants_address {
            return Err(Unanswered::NotWanted);
        }
        let missing = self.store.warmth().borrow().missing();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(Unanswered::Cold { missing });
        }
        let claim = self.claims.alone(Arc::clone(&pod)).await;
        claim.map_err(|error| Unanswered::NoClaim {
            pod: Some(pod),
            error,
        })
    }

    /// The nodes as decisions see them. Of a node that came as an object only its
    /// name is taken: bodies are not trusted.
    fn offers<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<filter::Offer<'n>> {
        self.cluster
            .nodes(|address: &dyn Fn(&str) -> Option<IpAddr>| {
                names
                    .map(|node| filter::Offer {
                        node,
                        address: address(node),
                    })
                    .collect()
            })
    }

    fn sort<'a>(
        &self,
        mut claim: Claim,
        nodes: &'a Nodes<'a>,
    ) -> Result<(FilterAnswer<'a>, bool), Unanswered> {
        let offers = self.offers(nodes.names());
        let until = clock::now()
            .saturating_add(PROMISE)
            .unwrap_or(Timestamp::MAX);
        let (sorted, given_back) = self.store.change(|books| {
            if !books.serves() {
                return Err(Unanswered::Adopting);
            }
            claim.claimant.yields_to = self.claims.ahead_of(&claim, books.ledger(), &offers);
            let claimant = &claim.claimant;
            let sorted = filter::filter(books.ledger(), claimant, &offers, until);
            let promise = sorted.as_ref().ok().and_then(|it| it.promise.clone());
            // While it is being bound, the promise of the bind stays.
            let is_free_to_promise = !self.turns.is_taken(&claimant.namespace, &claimant.name);
            let mut given_back = None;
            if is_free_to_promise {
                let before = books.ledger().promise_to(&claimant.uid);
                given_back = before.filter(|_| promise.is_none()).cloned();
                books.promise(&claimant.uid, promise);
            }
            // In the same step, so that no room is missed that others make.
            if sorted.as_ref().is_ok_and(|it| !it.fit.is_empty()) {
                self.waiting.leave(&claimant.uid);
            } else if !offers.is_empty() {
                self.waiting.refused(&claim);
                if claimant.shares_spares {
                    let ledger = books.ledger();
                    let sites = wake::one_node_each(ledger, &offers);
                    let sites = sites.into_iter().filter_map(|site| site.address);
                    let sites = sites.filter_map(|node| ledger.topology().node_subnet(node));
                    self.waiting.offered(&claimant.uid, sites);
                }
            }
            Ok((sorted, given_back))
        })?;
        if let Some(promise) = given_back {
            self.waiting.given_back(promise);
        }
        Ok(match sorted {
            Ok(mut sorted) => {
                // A decision sees addresses of nodes only.
                for (node, refusal) in &mut sorted.unfit {
                    if *refusal == NodeRefusal::UnknownNode && self.cluster.node(node).is_none() {
                        *refusal = NodeRefusal::NoSuchNode;
                    }
                }
                if let Some(refusal) = sorted.most_telling() {
                    self.reporter.waits(&claim.pod, refusal.reason(), &refusal);
                }
                (nodes.answer(&sorted), true)
            }
            Err(refusal) => {
                self.reporter.waits(&claim.pod, refusal.reason(), &refusal);
                (nowhere(nodes, &refusal.to_string()), false)
            }
        })
    }

    /// The answer when there is no claim to decide about.
    fn turn_down<'a>(&self, unanswered: &Unanswered, nodes: &'a Nodes<'a>) -> FilterAnswer<'a> {
        let text = unanswered.to_string();
        let (reason, is_transient) = match unanswered {
            Unanswered::NotWanted => return nodes.pass(),
            Unanswered::Cold { .. } => ("CachesCold", true),
            Unanswered::Adopting => ("NotReady", true),
            Unanswered::NoClaim { error, .. } => (error.reason(), error.is_transient()),
        };
        match unanswered {
            Unanswered::NoClaim {
                pod: Some(pod),
                error,
            } => self.reporter.waits(pod, reason, error),
            Unanswered::NoClaim { pod: None, .. }
            | Unanswered::Cold { .. }
            | Unanswered::Adopting
            | Unanswered::NotWanted => {
                debug!(reason, why = text, "pod is not filtered");
                self.metrics.refused(reason);
            }
        }
        if is_transient {
            nodes.refuse(text)
        } else {
            nowhere(nodes, &text)
        }
    }
}

/// Every node fails for the same reason, which no preemption can cure.
fn nowhere<'a>(nodes: &'a Nodes<'a>, text: &str) -> FilterAnswer<'a> {
    let text = Text::from(text);
    nodes.judge(|_| Verdict::Unresolvable(text.clone()))
}

#[cfg(test)]
mod tests;
