//! The rig of many members is what tests take it for.

use crate::rig::etcd::{EtcdRig, Pki, Wire};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_on_without_a_member_and_takes_it_back() {
    let mut rig = EtcdRig::start(3, Wire::Tls(Box::new(Pki::good()))).await;
    let before = rig.until_led().await;
    assert_eq!(before.len(), 3);
    rig.stop_member(2).await;
    assert_eq!((rig.until_led().await.len(), rig.pid(2)), (2, None));
    rig.client().await.put("k", "v", None).await.unwrap();
    rig.start_member(2).await;
    let after = rig.until_led().await;
    assert_eq!(after[2].member_id, before[2].member_id);
    let folder = rig.folder().to_owned();
    drop(rig);
    assert!(!folder.exists());
}
