//! What tests of the plugins stand on: namespaces, a site made of them, the plugin as
//! a runtime calls it, and a look at everything that it could leave behind.
//!
//! Both targets use it: `netns` on the host's kernel, `guest` on one with VLANs.

#[path = "../../guest/capture.rs"]
pub mod capture;
#[path = "harness/journey.rs"]
pub mod journey;
#[path = "harness/lab.rs"]
pub mod lab;
#[path = "harness/mode.rs"]
pub mod mode;
#[path = "harness/plugin.rs"]
pub mod plugin;
#[path = "harness/site.rs"]
pub mod site;
#[path = "harness/view.rs"]
pub mod view;
