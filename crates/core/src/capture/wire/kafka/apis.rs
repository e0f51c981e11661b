//! The APIs of Kafka, by their keys: names, newest versions, and the first version whose header has tagged fields.

pub const PRODUCE: u16 = 0;
pub const FETCH: u16 = 1;
pub const JOIN_GROUP: u16 = 11;
pub const SYNC_GROUP: u16 = 14;
pub const API_VERSIONS: u16 = 18;
pub const SHARE_FETCH: u16 = 78;

/// Names in the order of their keys, and the newest version of each. The oldest ones, which Kafka 4 no longer answers,
/// are 0.
const APIS: [(&str, u16); 93] = [
    ("Produce", 13),
    ("Fetch", 18),
    ("ListOffsets", 11),
    ("Metadata", 13),
    ("LeaderAndIsr", 7),
    ("StopReplica", 4),
    ("UpdateMetadata", 8),
    ("ControlledShutdown", 3),
    ("OffsetCommit", 10),
    ("OffsetFetch", 10),
    ("FindCoordinator", 6),
    ("JoinGroup", 9),
    ("Heartbeat", 4),
    ("LeaveGroup", 5),
    ("SyncGroup", 5),
    ("DescribeGroups", 6),
    ("ListGroups", 5),
    ("SaslHandshake", 1),
    ("ApiVersions", 4),
    ("CreateTopics", 7),
    ("DeleteTopics", 6),
    ("DeleteRecords", 2),
    ("InitProducerId", 6),
    ("OffsetForLeaderEpoch", 4),
    ("AddPartitionsToTxn", 5),
    ("AddOffsetsToTxn", 4),
    ("EndTxn", 5),
    ("WriteTxnMarkers", 2),
    ("TxnOffsetCommit", 5),
    ("DescribeAcls", 3),
    ("CreateAcls", 3),
    ("DeleteAcls", 3),
    ("DescribeConfigs", 4),
    ("AlterConfigs", 2),
    ("AlterReplicaLogDirs", 2),
    ("DescribeLogDirs", 4),
    ("SaslAuthenticate", 2),
    ("CreatePartitions", 3),
    ("CreateDelegationToken", 3),
    ("RenewDelegationToken", 2),
    ("ExpireDelegationToken", 2),
    ("DescribeDelegationToken", 3),
    ("DeleteGroups", 2),
    ("ElectLeaders", 2),
    ("IncrementalAlterConfigs", 1),
    ("AlterPartitionReassignments", 1),
    ("ListPartitionReassignments", 0),
    ("OffsetDelete", 0),
    ("DescribeClientQuotas", 1),
    ("AlterClientQuotas", 1),
    ("DescribeUserScramCredentials", 0),
    ("AlterUserScramCredentials", 0),
    ("Vote", 2),
    ("BeginQuorumEpoch", 1),
    ("EndQuorumEpoch", 1),
    ("DescribeQuorum", 2),
    ("AlterPartition", 3),
    ("UpdateFeatures", 2),
    ("Envelope", 0),
    ("FetchSnapshot", 1),
    ("DescribeCluster", 2),
    ("DescribeProducers", 0),
    ("BrokerRegistration", 4),
    ("BrokerHeartbeat", 1),
    ("UnregisterBroker", 0),
    ("DescribeTransactions", 0),
    ("ListTransactions", 2),
    ("AllocateProducerIds", 0),
    ("ConsumerGroupHeartbeat", 1),
    ("ConsumerGroupDescribe", 1),
    ("ControllerRegistration", 0),
    ("GetTelemetrySubscriptions", 0),
    ("PushTelemetry", 0),
    ("AssignReplicasToDirs", 0),
    ("ListConfigResources", 1),
    ("DescribeTopicPartitions", 0),
    ("ShareGroupHeartbeat", 1),
    ("ShareGroupDescribe", 1),
    ("ShareFetch", 2),
    ("ShareAcknowledge", 2),
    ("AddRaftVoter", 1),
    ("RemoveRaftVoter", 0),
    ("UpdateRaftVoter", 0),
    ("InitializeShareGroupState", 0),
    ("ReadShareGroupState", 0),
    ("WriteShareGroupState", 1),
    ("DeleteShareGroupState", 0),
    ("ReadShareGroupStateSummary", 1),
    ("StreamsGroupHeartbeat", 0),
    ("StreamsGroupDescribe", 0),
    ("DescribeShareGroupOffsets", 1),
    ("AlterShareGroupOffsets", 0),
    ("DeleteShareGroupOffsets", 0),
];

pub fn name(api: u16) -> Option<&'static str> {
    APIS.get(usize::from(api)).map(|api| api.0)
}

pub fn has(api: u16, version: u16) -> bool {
    let known = APIS.get(usize::from(api));
    known.is_some_and(|&(_, newest)| version <= newest)
}

/// Whether the header has tagged fields: only of those APIs whose bodies are read.
pub fn is_flexible(api: u16, version: u16) -> bool {
    match api {
        PRODUCE => version >= 9,
        FETCH => version >= 12,
        _ => false,
    }
}
