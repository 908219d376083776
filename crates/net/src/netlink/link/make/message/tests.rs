use super::*;
use crate::netlink::wire::{HEADER, attributes, u32_of};

#[test]
fn all_changes_of_virtual_functions_are_in_one_list() {
    let changes = [
        LinkChange::VfVlan { vf: 4, vlan: 0 },
        LinkChange::Up(true),
        LinkChange::VfVlan { vf: 3, vlan: 7 },
    ];
    let mut request = alteration(2, &changes);
    let message = request.finish(1).to_vec();
    let top = read(&message[HEADER + 16..]);
    assert_eq!(top.len(), 1);
    assert_eq!(top[0].0, libc::IFLA_VFINFO_LIST);
    let infos = read(&top[0].1);
    let found: Vec<Vec<u32>> = infos
        .iter()
        .map(|info| {
            let vlan = read(&info.1).remove(0);
            assert_eq!(vlan.0, VF_VLAN);
            vlan.1.chunks(4).map(|part| u32_of(part).unwrap()).collect()
        })
        .collect();
    assert_eq!(found, [[4, 0, 0], [3, 7, 0]]);
}

#[test]
fn a_change_without_up_leaves_the_flags_alone() {
    let mut request = alteration(2, &[LinkChange::Mtu(1400)]);
    let message = request.finish(1).to_vec();
    assert_eq!(message[HEADER + 8..HEADER + 16], [0; 8]);
    let mut request = alteration(2, &[LinkChange::Up(false)]);
    let message = request.finish(1).to_vec();
    assert_eq!(u32_of(&message[HEADER + 8..]).unwrap(), 0);
    assert_eq!(u32_of(&message[HEADER + 12..]).unwrap(), 1);
}

fn read(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    attributes(bytes, |kind, value| {
        all.push((kind, value.to_vec()));
        Ok(())
    })
    .unwrap();
    all
}
