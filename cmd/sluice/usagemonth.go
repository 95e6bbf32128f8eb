package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

const monthLayout = "2006-01"

type usageStorage = storage[ratelimit.UsageStore]

func newUsageStorage(getenv func(string) string) *usageStorage {
	return &usageStorage{
		getenv: getenv, what: "counters", variable: "COUNTERS_TABLE", logicalID: "CountersTable",
		openDir: func(dir string) (ratelimit.UsageStore, error) {
			sums, err := bolt.OpenSums(dir)
			if err != nil {
				return nil, err
			}
			return memory.NewDurableCounters(context.Background(), sums)
		},
		openTable: func(client *dynamodb.Client, name string) (ratelimit.UsageStore, error) {
			return dynamo.NewUsage(client, name)
		},
	}
}

// keyMonth is what an API key used in a month.
type keyMonth struct {
	Month     string `json:"month"` // such as 2026-11
	Workspace string `json:"workspace"`
	KeyID     string `json:"key_id"`
	Name      string `json:"name"`
	Plan      string `json:"plan"` // that the key has now; "" for none
	Records   int64  `json:"records"`
	Imports   int64  `json:"imports"`
}

// printMonth prints the usage of all API keys that were created before the end of a month.
func printMonth(cmd *cobra.Command, o *usageStorage, keys *keysReader, text string, now time.Time) error {
	month, err := parseMonth(text, now)
	if err != nil {
		return err
	}
	counters, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	manager, known, err := openBeside(cmd, o, keys)
	if err != nil {
		return err
	}
	if !known {
		return usageError("the keys are in another table: name it with --keys-table or KEYS_TABLE")
	}
	all, err := access.All(cmd.Context(), manager, "")
	if err != nil {
		return fmt.Errorf("the keys cannot be read: %w", err)
	}
	used, err := usedInMonth(cmd.Context(), counters, all, month)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if len(used) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "There were no API keys in %s.\n", month.Format(monthLayout))
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), used)
	}
	return writeMonth(cmd.OutOrStdout(), used)
}

// parseMonth returns the start of a month in UTC; "" is the current one.
func parseMonth(text string, now time.Time) (time.Time, error) {
	current := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	if text == "" {
		return current, nil
	}
	month, err := time.Parse(monthLayout, text)
	switch {
	case err != nil:
		return time.Time{}, usageError("--month %s: write year and month, such as %s", text, current.Format(monthLayout))
	case month.After(current):
		return time.Time{}, usageError("--month %s has not begun", text)
	case month.Before(current.AddDate(0, 1-ratelimit.KeptMonths, 0)):
		return time.Time{}, usageError("--month %s: the usage is kept for %d months", text, ratelimit.KeptMonths)
	}
	return month, nil
}

func usedInMonth(ctx context.Context, counters ratelimit.UsageStore, keys []access.Key, month time.Time) ([]keyMonth, error) {
	end := month.AddDate(0, 1, 0)
	used := []keyMonth{}
	for _, k := range keys {
		if k.CreatedAt.Before(end) {
			used = append(used, keyMonth{Month: month.Format(monthLayout), Workspace: k.Workspace, KeyID: k.ID, Name: k.Name, Plan: k.Plan})
		}
	}
	identities := make([]string, len(used))
	for i, u := range used {
		identities[i] = ratelimit.KeyIdentity(u.KeyID)
	}
	sums, err := counters.Sums(ctx, identities, ratelimit.Month, ratelimit.WindowAt(end)-1)
	for i, identity := range identities {
		used[i].Records, used[i].Imports = sums[identity].Records, sums[identity].Imports
	}
	return used, err
}

func writeMonth(out io.Writer, used []keyMonth) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"month", "workspace", "key_id", "name", "plan", "records", "imports"}) // Error returns its error
	for _, u := range used {
		_ = w.Write([]string{u.Month, u.Workspace, u.KeyID, u.Name, u.Plan, strconv.FormatInt(u.Records, 10), strconv.FormatInt(u.Imports, 10)})
	}
	w.Flush()
	return w.Error()
}
