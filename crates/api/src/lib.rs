//! The resources and wire contracts of floe: types and their conversions.
//!
//! **What it is for.** Whatever floe reads from or writes to others has its
//! shape here: the objects of the API server, the bodies of the scheduler, the
//! names of labels and annotations.
//!
//! **What it never does.** It talks to nobody, so it uses kube without its
//! client, and it decides nothing.
//!
//! **Neighbours.** `floe-core` lies below and knows what an address and a
//! holder are. The binaries lie above.
//!
//! - [`galaxy`]: the resources of `galaxy.k8s.io/v1alpha1`.
//! - [`floe`]: the resources of floe's own group, `floe.dev/v1alpha1`.
//! - [`flipop`]: the resources of FLIPOP, `flipop.digitalocean.com/v1alpha1`.
//! - [`crds`]: the definitions of all for the API server.
//! - [`extender`]: what kube-scheduler asks and what it is answered.
//! - [`rest`]: the bodies of the management API.
//! - [`labels`]: names of labels and annotations.

#![forbid(unsafe_code)]

pub mod crds;
pub mod extender;
pub mod flipop;
pub mod floe;
pub mod galaxy;
pub mod labels;
mod resource;
pub mod rest;
