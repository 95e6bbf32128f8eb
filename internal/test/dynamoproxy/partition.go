package dynamoproxy

import "time"

// partitions limits the writes to each partition key, as a partition of DynamoDB
// does.
type partitions struct {
	perSecond int               // writes; 0 for no limit
	second    int64             // of writes, as Unix time
	writes    map[[2]string]int // in that second, by table and partition key
	most      int               // writes that one partition key was asked for in a second
}

// ThrottlePartitions rejects writes to items with the key attribute pk above so
// many a second for each value of pk. Each write counts as one unit, also if its
// condition fails.
func (p *Proxy) ThrottlePartitions(perSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitions = partitions{perSecond: perSecond}
}

// MostWrites returns the most writes a second that one partition key was asked
// for since ThrottlePartitions, including those that were rejected.
func (p *Proxy) MostWrites() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.partitions.most
}

// throttled reports whether a call must be rejected.
func (p *Proxy) throttled(call Call, pk string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &p.partitions
	switch call.Operation {
	case "UpdateItem", "PutItem", "DeleteItem":
	default:
		return false
	}
	if t.perSecond == 0 || pk == "" {
		return false
	}
	if now := time.Now().Unix(); now != t.second || t.writes == nil {
		t.second, t.writes = now, make(map[[2]string]int)
	}
	key := [2]string{call.Table, pk}
	t.writes[key]++
	t.most = max(t.most, t.writes[key])
	return t.writes[key] > t.perSecond
}
