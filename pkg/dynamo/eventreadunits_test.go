package dynamo

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/event"
	"sluice/pkg/storetest"
)

func textOf(v types.AttributeValue) string { return v.(*types.AttributeValueMemberS).Value }

// units returns the read units of an eventually consistent query, at least half a unit.
func units(bytes int) float64 { return max(math.Ceil(float64(bytes)/4096), 1) / 2 }

// The units of a page are compared with two figures:
//   - ideal: what a single query for exactly the returned items would take.
//   - least: what one query per shard for exactly the shard's returned items would take.
func TestWalksAndTheirReadUnits(t *testing.T) {
	for _, shards := range []int{1, 16} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			m := newMeter(t)
			open := eventsIn(t, m, shards)
			storetest.WalkEvents(t, func(*testing.T) func(now func() time.Time) (event.Store, error) { return open }, true)
			s, err := open(time.Now)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{1, 7, 50, 200} {
				m.units, m.queries = 0, 0
				var ideal, least float64
				pages := 0
				q := event.Query{Limit: limit}
				for pages < 30 {
					page, err := s.List(t.Context(), "default", q)
					if err != nil {
						t.Fatal(err)
					}
					size, sizes := 0, make(map[string]int)
					for _, e := range page.Records {
						size += m.items[e.ID].bytes
						sizes[m.items[e.ID].shard] += m.items[e.ID].bytes
					}
					ideal += units(size)
					least += float64(shards-len(sizes)) / 2
					for _, size := range sizes {
						least += units(size)
					}
					pages++
					if q.Cursor = page.Next; q.Cursor == "" {
						break
					}
				}
				n := float64(pages)
				t.Logf("%2d shards, limit %3d: %5.2f read units in %4.1f queries a page; ideal %5.2f (%5.2f times); least by shard %5.2f (%4.2f times)",
					shards, limit, m.units/n, float64(m.queries)/n, ideal/n, m.units/ideal, least/n, m.units/least)
				if m.units > 1.25*least {
					t.Errorf("%d shards, limit %d: %v read units, more than 1.25 times the %v that the shards make necessary", shards, limit, m.units, least)
				}
			}
		})
	}
}
