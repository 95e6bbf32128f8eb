package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

func Example() {
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	})
	if err != nil {
		panic(err)
	}
	address, err := ratelimit.ParseAddress("::ffff:192.0.2.1", ratelimit.DefaultIPv6Prefix)
	if err != nil {
		panic(err)
	}
	route := ratelimit.Route{Name: "list-entity", Class: ratelimit.Export}
	for _, records := range []int64{150, 60, 50} {
		d, err := limiter.Charge(context.Background(), ratelimit.Request{
			Address: address, Route: route, Records: records,
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(records, d.Allowed, d.Violated(), d.Remaining())
	}
	// Output:
	// 150 true [] 50
	// 60 false [records] 0
	// 50 true [] 0
}
