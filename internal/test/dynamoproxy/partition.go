package dynamoproxy

import "time"

// partitions counts and limits the writes to each partition key. DynamoDB limits the
// writes to a partition in the same way.
type partitions struct {
	perSecond int               // maximum writes per second; 0 for no limit
	second    int64             // Unix time of the second for which writes are counted
	writes    map[[2]string]int // number of writes in that second, by table and partition key
	most      int               // highest number of writes to one partition key in a second
}

// ThrottlePartitions sets the maximum number of writes per second to each partition key (the
// attribute pk). The proxy rejects further writes. Each write counts as one unit, even if its
// condition fails.
func (p *Proxy) ThrottlePartitions(perSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitions = partitions{perSecond: perSecond}
}

// MostWrites returns the highest number of writes that one partition key has received in one
// second. It ignores writes before the call of ThrottlePartitions, and includes rejected writes.
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
