//! The policy: who may use whom, and why.

/// What one crate of the workspace may depend on. A rule may name a crate that
/// does not exist yet; a crate without a rule is an error.
pub struct Rule {
    pub name: &'static str,
    /// Crates of the workspace it may depend on directly, in any way.
    pub may_use: &'static [&'static str],
    /// Completes "may use only these, because ...".
    pub why: &'static str,
    pub never: &'static [Ban],
    pub features: &'static [Features],
}

/// External crates that are out of bounds.
pub struct Ban {
    /// Package names; a `*` at the end stands for any rest.
    pub crates: &'static [&'static str],
    pub reach: Reach,
    /// Completes "may not reach ...", with the reason.
    pub what: &'static str,
}

/// How a ban is meant.
pub enum Reach {
    /// Not as an own dependency; a neighbour may bring it.
    Directly,
    /// Not through any chain of dependencies.
    AtAll,
}

/// The features with which an external crate may be declared.
pub struct Features {
    pub of: &'static str,
    pub only: &'static [&'static str],
    /// Completes "only with these features, because ...".
    pub why: &'static str,
}

impl Ban {
    pub fn covers(&self, name: &str) -> bool {
        self.crates
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == *pattern,
            })
    }
}

impl Reach {
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Directly => "use",
            Self::AtAll => "reach",
        }
    }
}

const RUNTIME: Ban = Ban {
    crates: &[
        "tokio",
        "tokio-*",
        "async-std",
        "smol",
        "mio",
        "hyper",
        "hyper-*",
        "axum",
        "axum-*",
        "tonic",
    ],
    reach: Reach::AtAll,
    what: "an async runtime or server: it decides or blocks, and waiting is the caller's business",
};

const KUBERNETES: Ban = Ban {
    crates: &["kube", "kube-*", "k8s-openapi"],
    reach: Reach::AtAll,
    what: "Kubernetes crates: what it knows must hold without a cluster, and its binary stays small",
};

const KUBERNETES_CLIENT: Ban = Ban {
    crates: &["kube-client", "kube-runtime"],
    reach: Reach::AtAll,
    what: "a Kubernetes client: only shell, controller, agent and cli (and the test crates) talk to the API server",
};

const SYSTEM: Ban = Ban {
    crates: &[
        "nix",
        "rustix",
        "socket2",
        "netlink-*",
        "nftables",
        "tempfile",
        "tracing-subscriber",
    ],
    reach: Reach::AtAll,
    what: "system calls: a pure decision can be replayed from its arguments alone",
};

const CLOUD: Ban = Ban {
    crates: &["reqwest", "ureq", "aws-*", "hickory-net", "hickory-client"],
    reach: Reach::AtAll,
    what: "cloud or DNS clients: only providers talks to the outside",
};

const OWN_CLOUD: Ban = Ban {
    reach: Reach::Directly,
    ..CLOUD
};

/// The whole policy. Arrows go up only: a crate may use some of those above it.
pub const RULES: &[Rule] = &[
    Rule {
        name: "floe-core",
        may_use: &[],
        why: "it is the pure heart: no input or output, no clock, no Kubernetes",
        never: &[RUNTIME, KUBERNETES, SYSTEM, CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-api",
        may_use: &["floe-core"],
        why: "it is types and their conversions",
        never: &[RUNTIME, KUBERNETES_CLIENT, SYSTEM, CLOUD],
        features: &[Features {
            of: "kube",
            only: &["admission", "derive", "jsonpatch"],
            why: "these are types; the others bring the client",
        }],
    },
    Rule {
        name: "floe-net",
        may_use: &["floe-core"],
        why: "the CNI plugin links it, which is small, blocking and without Kubernetes",
        never: &[RUNTIME, KUBERNETES, CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-providers",
        may_use: &["floe-core"],
        why: "a cloud is told what to do and knows nothing of Kubernetes",
        never: &[KUBERNETES],
        features: &[],
    },
    Rule {
        name: "floe-shell",
        may_use: &["floe-core"],
        why: "it is what programs do alike, whatever they are for",
        never: &[CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-controller",
        may_use: &["floe-core", "floe-api", "floe-providers", "floe-shell"],
        why: "the control plane never touches a node's network",
        never: &[OWN_CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-agent",
        may_use: &["floe-core", "floe-api", "floe-net", "floe-shell"],
        why: "a node does what the control plane decided and holds no cloud credentials",
        never: &[CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-cni",
        may_use: &["floe-core", "floe-net"],
        why: "it is started for every pod: small, blocking, without Kubernetes",
        never: &[RUNTIME, KUBERNETES, CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-cli",
        // The shell for its API server in memory, in tests only.
        may_use: &["floe-core", "floe-api", "floe-shell"],
        why: "it shows and asks, the control plane does",
        never: &[CLOUD],
        features: &[],
    },
    Rule {
        name: "floe-testbed",
        may_use: PRODUCT,
        why: "it may try every part of the product, and nothing of the product may need it",
        never: &[],
        features: &[],
    },
    Rule {
        name: "floe-bench",
        may_use: EVERYTHING,
        why: "it measures every part of the product, and nothing needs it",
        never: &[],
        features: &[],
    },
    Rule {
        name: "floe-tests",
        may_use: EVERYTHING,
        why: "tests see all, and nothing sees them",
        never: &[],
        features: &[],
    },
    Rule {
        name: "xtask",
        may_use: EVERYTHING,
        why: "the commands of the repository see all, and nothing sees them",
        never: &[],
        features: &[],
    },
    Rule {
        name: "xtask-launcher",
        may_use: &[],
        why: "it is compiled before xtask, on every fresh machine",
        never: &[Ban {
            crates: &["*"],
            reach: Reach::AtAll,
            what: "any other crate: it would be compiled twice, with features of its own",
        }],
        features: &[],
    },
];

/// Crates that exist for tests; nothing that is shipped may depend on them.
pub const FOR_TESTS: &[&str] = &[
    "floe-testbed",
    "floe-bench",
    "floe-tests",
    "xtask",
    "xtask-launcher",
];

const PRODUCT: &[&str] = &[
    "floe-core",
    "floe-api",
    "floe-net",
    "floe-providers",
    "floe-shell",
    "floe-controller",
    "floe-agent",
    "floe-cni",
    "floe-cli",
];

const EVERYTHING: &[&str] = &[
    "floe-core",
    "floe-api",
    "floe-net",
    "floe-providers",
    "floe-shell",
    "floe-controller",
    "floe-agent",
    "floe-cni",
    "floe-cli",
    "floe-testbed",
];
