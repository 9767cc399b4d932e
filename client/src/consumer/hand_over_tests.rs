//! What a consumer does about vgroups that are taken from it, and those that are off-line.

use proto::v1;

use super::hand_over::Release;
use super::state::{Request, Settings};
use super::state_tests::{Rig, TOPIC, key, ms, offsets_of, settings};

const HAND_OVER: u64 = 40;

/// Reads vgroups 2 and 3; message 1..5 of vgroup 3 was handed out.
fn handling(settings: Settings) -> Rig {
    let mut rig = Rig::reading(settings, &[2, 3]);
    rig.message(3, 1, 5);
    rig.message(3, 5, 9);
    assert_eq!(rig.poll().unwrap().next(), 5);
    rig
}

fn assignment(revoked: &[u32], hand_over: Option<u64>, offline: &[u32]) -> v1::Assignment {
    let vgroup =
        |vgroup: &u32| v1::AssignedVgroup { vgroup: *vgroup, epoch: 1, revoked: revoked.contains(vgroup) };
    let error = model::Error::of(model::Code::Damaged);
    let offline = offline
        .iter()
        .map(|vgroup| v1::OfflineVgroup { vgroup: *vgroup, error: Some(proto::status::to_detail(&error)) });
    let topic = v1::AssignedTopic {
        id: TOPIC,
        name: "t".into(),
        vgroups: [2, 3].iter().map(vgroup).collect(),
        hand_over,
        offline: offline.collect(),
        ..Default::default()
    };
    v1::Assignment { consumer_epoch: 1, ready: true, topics: vec![topic] }
}

fn revoke(rig: &mut Rig, revoked: &[u32], hand_over: Option<u64>) {
    rig.state.assign(assignment(revoked, hand_over, &[])).unwrap();
    rig.pump();
}

fn release(rig: &mut Rig) -> Option<(u64, Vec<(u32, i64)>)> {
    let Release { topic, hand_over, commits } = rig.state.next_release()?;
    assert_eq!(topic, TOPIC);
    let offsets = offsets_of(&commits);
    for commit in &commits {
        rig.state.commit_done(commit, &Ok(()));
    }
    Some((hand_over, offsets))
}

#[test]
fn what_was_handled_is_committed_before_the_vgroup_is_released() {
    let mut rig = handling(settings());
    revoke(&mut rig, &[3], Some(HAND_OVER));
    assert!(rig.sent.contains(&Request::Stop(key(3))));
    assert_eq!(release(&mut rig), None, "the application has the message in its hands");
    assert!(rig.poll().is_none(), "nothing more of it, and the poll says that the message is handled");
    assert_eq!(release(&mut rig), Some((HAND_OVER, vec![(3, 5)])));
    assert_eq!(release(&mut rig), None, "once");
    assert_eq!(rig.position(3), 5, "what was fetched and not handed out is the next owner's");
    assert!(rig.poll().is_none());
    rig.message(2, 1, 2);
    assert!(rig.poll().is_some(), "the other goes on");
}

#[test]
fn a_vgroup_of_which_nothing_is_in_hands_is_released_at_once() {
    let mut rig = handling(settings());
    revoke(&mut rig, &[2], Some(HAND_OVER));
    assert_eq!(release(&mut rig), Some((HAND_OVER, Vec::new())));
}

#[test]
fn commits_by_hand_are_the_applications() {
    let mut rig = handling(Settings { auto_commit_interval: None, ..settings() });
    revoke(&mut rig, &[3], Some(HAND_OVER));
    assert_eq!(release(&mut rig), None, "it may be about to commit");
    let commit = rig.state.commit_offset("t", 3, 5).unwrap().unwrap();
    assert!(rig.poll().is_none());
    assert_eq!(release(&mut rig), None, "the commit is under way: what comes first decides who is fenced");
    rig.state.commit_done(&commit, &Ok(()));
    assert_eq!(release(&mut rig), Some((HAND_OVER, Vec::new())));
}

#[test]
fn a_commit_under_way_is_awaited() {
    let mut rig = handling(settings());
    rig.now = ms(5_000);
    let (commits, _) = rig.poll_full();
    assert_eq!(offsets_of(&commits), [(3, 5)]);
    assert!(rig.state.next_release().is_none());
    revoke(&mut rig, &[3], Some(HAND_OVER));
    rig.poll();
    assert_eq!(release(&mut rig), None);
    rig.state.commit_done(&commits[0], &Ok(()));
    // The second message was handed out by the poll that committed the first.
    assert_eq!(release(&mut rig), Some((HAND_OVER, vec![(3, 9)])));
}

#[test]
fn a_vgroup_that_stays_after_all_is_read_on() {
    let mut rig = handling(settings());
    revoke(&mut rig, &[3], Some(HAND_OVER));
    assert!(rig.poll().is_none() && release(&mut rig).is_some());
    let stale = rig.started(3).unwrap().0;
    revoke(&mut rig, &[], None);
    assert!(rig.poll().is_none());
    let (generation, position) = rig.started(3).unwrap();
    assert!(generation > stale && position == Some(5), "{generation} {position:?}");
    rig.message(3, 5, 9);
    assert_eq!(rig.poll().unwrap().begin(), 5, "nothing twice, nothing left out");
}

#[test]
fn another_hand_over_and_another_session_are_answered_anew() {
    let mut rig = handling(settings());
    revoke(&mut rig, &[3], Some(HAND_OVER));
    rig.poll();
    assert_eq!(release(&mut rig), Some((HAND_OVER, vec![(3, 5)])));
    revoke(&mut rig, &[3], Some(HAND_OVER));
    assert_eq!(release(&mut rig), None, "the same assignment again");
    revoke(&mut rig, &[3], Some(HAND_OVER + 1));
    assert_eq!(release(&mut rig), Some((HAND_OVER + 1, Vec::new())));
    rig.state.disconnected();
    rig.connect();
    assert_eq!(release(&mut rig), Some((HAND_OVER + 1, Vec::new())));
    assert_eq!(rig.started(3).unwrap().0, 2, "and it is not started again");
}

#[test]
fn off_line_vgroups_are_told_once_and_forgotten_when_they_are_back() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    let mut news = |offline: &[u32]| {
        let news = rig.state.assign(assignment(&[], None, offline)).unwrap();
        let vgroups = |list: &[super::OfflineVgroup]| list.iter().map(|o| o.vgroup).collect::<Vec<_>>();
        (vgroups(&news), vgroups(&rig.state.offline()))
    };
    assert_eq!(news(&[4]), (vec![4], vec![4]));
    assert_eq!(news(&[4, 5]), (vec![5], vec![4, 5]));
    assert_eq!(news(&[5]), (vec![], vec![5]));
    assert_eq!(news(&[4, 5]), (vec![4], vec![4, 5]), "gone again is news again");
    let told = rig.state.offline();
    assert_eq!((told[0].topic.as_str(), told[0].error.code()), ("t", model::Code::Damaged));
    rig.state.unsubscribed();
    assert!(rig.state.offline().is_empty());
}
