use super::*;

const FOUR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 5));
const SIX: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 5));

fn well() -> Facts<'static> {
    Facts {
        phase: Phase::Running,
        is_ready: true,
        is_terminating: false,
        is_node_ready: true,
        is_agent_live: true,
        addresses: &[FOUR],
    }
}

#[test]
fn a_pod_that_runs_is_ready_and_stays_on_a_node_that_is_well_is_fit() {
    assert_eq!(fitness(well(), &[FOUR]), Fitness::Fit);
    assert!(fitness(well(), &[]).is_fit());
}

#[test]
fn a_pod_is_ready_unless_its_kubelet_says_otherwise() {
    let says = |ready, reason, containers| {
        let readiness = Readiness {
            ready,
            reason,
            containers,
        };
        readiness.is_ready()
    };
    assert!(says("True", "", "True"));
    assert!(says("False", "", "True"), "the node is not heard");
    assert!(!says("False", "ContainersNotReady", "False"));
    assert!(!says("False", "ReadinessGatesNotReady", "True"));
    assert!(!says("False", "", "False"));
    assert!(!says("Unknown", "", "True"));
    assert!(!Readiness::default().is_ready());
}

#[test]
fn each_fact_alone_makes_a_pod_unfit_with_its_own_reason() {
    let cases = [
        (
            Facts {
                phase: Phase::Succeeded,
                ..well()
            },
            "PodFinished",
        ),
        (
            Facts {
                phase: Phase::Failed,
                ..well()
            },
            "PodFinished",
        ),
        (
            Facts {
                is_terminating: true,
                ..well()
            },
            "PodDeleted",
        ),
        (
            Facts {
                phase: Phase::Pending,
                ..well()
            },
            "PodNotRunning",
        ),
        (
            Facts {
                phase: Phase::Unknown,
                ..well()
            },
            "PodNotRunning",
        ),
        (
            Facts {
                addresses: &[],
                ..well()
            },
            "PodWithoutAddress",
        ),
        (
            Facts {
                addresses: &[SIX],
                ..well()
            },
            "FamilyMissing",
        ),
        (
            Facts {
                is_ready: false,
                ..well()
            },
            "PodNotReady",
        ),
        (
            Facts {
                is_node_ready: false,
                ..well()
            },
            "NodeNotReady",
        ),
        (
            Facts {
                is_agent_live: false,
                ..well()
            },
            "AgentNotLive",
        ),
    ];
    for (pod, reason) in cases {
        let Fitness::Unfit(unfit) = fitness(pod, &[FOUR]) else {
            panic!("{pod:?} is fit");
        };
        assert_eq!(unfit.reason(), reason);
        assert!(!unfit.to_string().is_empty());
        assert!(!fitness(pod, &[FOUR]).is_fit());
    }
}

#[test]
fn of_several_reasons_the_one_that_is_hardest_to_undo_is_told() {
    let mut pod = Facts {
        phase: Phase::Failed,
        is_ready: false,
        is_terminating: true,
        is_node_ready: false,
        is_agent_live: false,
        addresses: &[],
    };
    let reason = |pod| match fitness(pod, &[FOUR]) {
        Fitness::Fit => "",
        Fitness::Unfit(unfit) => unfit.reason(),
    };
    let mut told = vec![reason(pod)];
    pod.phase = Phase::Unknown;
    told.push(reason(pod));
    pod.is_terminating = false;
    told.push(reason(pod));
    pod.phase = Phase::Running;
    told.push(reason(pod));
    pod.addresses = &[SIX];
    told.push(reason(pod));
    pod.addresses = &[SIX, FOUR];
    told.push(reason(pod));
    pod.is_ready = true;
    told.push(reason(pod));
    pod.is_node_ready = true;
    told.push(reason(pod));
    pod.is_agent_live = true;
    told.push(reason(pod));
    let expected = [
        "PodFinished",
        "PodDeleted",
        "PodNotRunning",
        "PodWithoutAddress",
        "FamilyMissing",
        "PodNotReady",
        "NodeNotReady",
        "AgentNotLive",
        "",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_pod_must_serve_all_addresses_that_stay_together() {
    let both = Facts {
        addresses: &[FOUR, SIX],
        ..well()
    };
    assert!(fitness(both, &[SIX, FOUR]).is_fit());
    let missing = FamilyMissing { address: SIX };
    let expected = Fitness::Unfit(Unfit::FamilyMissing(missing));
    assert_eq!(fitness(well(), &[FOUR, SIX]), expected);
}

#[test]
fn phases_have_the_names_of_kubernetes() {
    for (name, phase) in [
        ("Pending", Phase::Pending),
        ("Running", Phase::Running),
        ("Succeeded", Phase::Succeeded),
        ("Failed", Phase::Failed),
        ("Unknown", Phase::Unknown),
        ("", Phase::Unknown),
        ("running", Phase::Unknown),
    ] {
        assert_eq!(Phase::parse(name), phase);
    }
}
