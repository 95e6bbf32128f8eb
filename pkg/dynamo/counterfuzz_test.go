package dynamo

import (
	"reflect"
	"testing"

	"sluice/pkg/ratelimit"
)

func FuzzItemKey(f *testing.F) {
	f.Add("192.0.2.1", byte(0), int64(1_800_000_000), "192.0.2.1", byte(1), int64(1_800_000_000))
	f.Add("192.0.2.1", byte(0), int64(1), "192.0.2.11", byte(0), int64(1))
	f.Add("192.0.2.1", byte(0), int64(1), "192.0.2.1", byte(0), int64(61))
	f.Add("192.0.2.1", byte(0), int64(59), "192.0.2.1", byte(0), int64(60))
	f.Add("192.0.2.1", byte(0), int64(-1), "192.0.2.1", byte(0), int64(0))
	f.Add("192.0.2.1", byte(0), int64(1), "::ffff:192.0.2.1", byte(0), int64(1))
	f.Add("2001:db8::1", byte(0), int64(11), "2001:db8:0:1::", byte(0), int64(1))
	f.Add("2001:db8::", byte(2), int64(-1), "2001:db8::1", byte(2), int64(1))
	f.Add("1.2.3.4", byte(0), int64(0), "::102:304", byte(0), int64(0))
	groups := []ratelimit.Group{"export", "import", "usage", "not-found"}
	f.Fuzz(func(t *testing.T, s1 string, group1 byte, window1 int64, s2 string, group2 byte, window2 int64) {
		for _, prefix := range []int{64, 128} {
			a1, err1 := ratelimit.ParseAddress(s1, prefix)
			a2, err2 := ratelimit.ParseAddress(s2, prefix)
			if err1 != nil || err2 != nil {
				return
			}
			k1 := ratelimit.Key{Identity: ratelimit.AddressIdentity(a1), Group: groups[int(group1)%len(groups)], Window: ratelimit.Window(window1)}
			k2 := ratelimit.Key{Identity: ratelimit.AddressIdentity(a2), Group: groups[int(group2)%len(groups)], Window: ratelimit.Window(window2)}
			if i1, i2 := counterKey(k1), counterKey(k2); (k1 == k2) != reflect.DeepEqual(i1, i2) {
				t.Errorf("the item of %+v is %v, that of %+v is %v", k1, i1, k2, i2)
			}
		}
	})
}

func TestCountersExpireFiveMinutesAfterTheirWindow(t *testing.T) {
	const window = 1_800_000_000
	in := new(Counters).update(ratelimit.Key{Identity: "192.0.2.1", Group: "import", Window: window}, one("imports", 200))
	if got, want := in.ExpressionAttributeValues[":expires_at"], number(window+1+5*60); !reflect.DeepEqual(got, want) {
		t.Errorf("expires_at is %v, want %v", got, want)
	}
}

func TestAMinuteSharesAPartitionKey(t *testing.T) {
	key := func(w ratelimit.Window) any {
		return counterKey(ratelimit.Key{Identity: "192.0.2.1", Group: "export", Window: w})["pk"]
	}
	for _, begin := range []ratelimit.Window{1_800_000_000, 0, -60} {
		if !reflect.DeepEqual(key(begin), key(begin+59)) || reflect.DeepEqual(key(begin), key(begin-1)) || reflect.DeepEqual(key(begin), key(begin+60)) {
			t.Errorf("the minute at %d: first key %v, last key %v, key before %v, key after %v", begin, key(begin), key(begin+59), key(begin-1), key(begin+60))
		}
	}
}
