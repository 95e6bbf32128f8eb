package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

type rowStorage = storage[ratelimit.RowManager]

func newRowStorage(getenv func(string) string, what string) *rowStorage {
	return &rowStorage{getenv: getenv, what: what, variable: "LIMITS_TABLE", logicalID: "LimitsTable", openDir: openLimitsDir, openTable: openLimitsTable}
}

func openLimitsDir(dir string) (ratelimit.RowManager, error) { return bolt.OpenLimits(dir) }

func openLimitsTable(client *dynamodb.Client, name string) (ratelimit.RowManager, error) {
	return dynamo.NewLimits(client, name)
}

func limitsCommand(getenv func(string) string) *cobra.Command {
	o, keys := newRowStorage(getenv, "rows"), keysBeside()
	cmd := o.command("limits", "Set limits for single addresses and API keys, or block or observe them",
		`Set the limits of single addresses, CIDR blocks and API keys, in rows that override
the limits of the service. Each address in a block is counted separately. If several
rows contain an address, only the row with the longest prefix applies. For a limit
that this row does not set, the default of the service applies.

A row for key:ID makes the service count the requests with this API key by the key,
over all addresses, and not by their addresses. A key may also have a plan ("sluice
plans"); its own row takes precedence for each limit that it sets. The action block of
an address takes precedence over both, and they over the other rows of addresses.

IPv6 clients are counted by their /64, or by the prefix length in CLIENT_IPV6_PREFIX.
If the service has this variable, set it to the same value here. "sluice usage" shows
how much of its limits an address or a key uses.`, setLimitsCommand(o), listLimitsCommand(o), removeLimitsCommand(o), checkLimitsCommand(o, keys))
	keys.addFlag(cmd, getenv, "API keys")
	return cmd
}

// ipv6Prefix parses CLIENT_IPV6_PREFIX as the service does.
func ipv6Prefix(getenv func(string) string) (int, error) {
	const variable = "CLIENT_IPV6_PREFIX"
	cfg, err := httpapi.LoadConfig(func(name string) string {
		if name == variable {
			return getenv(variable)
		}
		return ""
	})
	if err != nil {
		return 0, usageError("%w", err)
	}
	return cfg.IPv6Prefix, nil
}

func setLimitsCommand(o *rowStorage) *cobra.Command {
	var r ratelimit.Row
	var expiresIn string
	cmd := &cobra.Command{
		Use:   "set CIDR|key:ID [--records N] [--imports N] [--requests N] [--records-per-month N] [--action ACTION] [--expires-in TIME] [--note TEXT]",
		Short: "Set or replace the row of a block or a key",
		Long: `Set or replace the row of a CIDR block, an address or an API key.

Actions:

  limit      refuse requests beyond the limits with 429
  block      refuse every request with 403
  unlimited  count every request and refuse none
  observe    refuse none; the log and the metric Observed count the requests that
             the limits would have refused

For a limit that is not given, the default of the service applies. A row with only
--action limit gives an address in a block, or a key, the defaults. Quotas by day and
month, and --export-jobs, are only for keys.`,
		Example: `  sluice limits set 192.0.2.0/24 --records 1000 --note "partner, ticket 17"
  sluice limits set key:7m3kq2xw9abc --records 1000 --imports 400 --note "acme, plan pro"
  sluice limits set 198.51.100.7 --action block --expires-in 12h
  sluice limits set 2001:db8::/32 --requests 50 --action observe --table sluice-LimitsTable-1ABCDEF`,
		Args: oneArg("one CIDR block, address or key:ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := checkLimitFlags(cmd); err != nil {
				return err
			}
			now := time.Now()
			if r.ExpiresAt, err = parseExpiry(expiresIn, now); err != nil {
				return err
			}
			return setLimits(cmd, o, args[0], r, now)
		},
	}
	addLimitFlags(cmd, &r)
	cmd.Flags().StringVar((*string)(&r.Action), "action", string(ratelimit.ActionLimit), "limit, block, unlimited or observe")
	cmd.Flags().StringVar(&expiresIn, "expires-in", "", "how long the row applies, such as 12h or 90d (default: until it is removed)")
	cmd.Flags().StringVar(&r.Note, "note", "", "text that says what the row is for")
	completeValues(cmd, "action", ratelimit.ActionLimit, ratelimit.ActionBlock, ratelimit.ActionUnlimited, ratelimit.ActionObserve)
	return cmd
}

func parseRowName(text string, ipv6Prefix int) (ratelimit.Row, error) {
	r, err := ratelimit.ParseRowName(text, ipv6Prefix)
	if err == nil && r.Plan != "" {
		err = errors.New("\"sluice plans\" manages plans")
	}
	if err == nil && r.KeyID != "" && !access.IsID(r.KeyID) {
		err = fmt.Errorf("%q is not the id of a key; \"sluice keys list\" shows the ids", r.KeyID)
	}
	if err != nil {
		return r, usageError("%w", err)
	}
	return r, nil
}

func setLimits(cmd *cobra.Command, o *rowStorage, name string, r ratelimit.Row, now time.Time) error {
	prefix, err := ipv6Prefix(o.getenv)
	if err != nil {
		return err
	}
	of, err := parseRowName(name, prefix)
	if err != nil {
		return err
	}
	r.CIDR, r.KeyID = of.CIDR, of.KeyID
	return putRow(cmd, o, r, now)
}

func exportRoutes() (n int) {
	for _, r := range httpapi.Routes() {
		if r.Class == ratelimit.Export {
			n++
		}
	}
	return n
}

func listLimitsCommand(o *rowStorage) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the rows: keys, then blocks in their order",
		Example: `  sluice limits list --json | jq -r '.[] | select(.action == "block") | .cidr'`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listLimits(cmd, o) },
	}
}

func listLimits(cmd *cobra.Command, o *rowStorage) error {
	rows, invalid, where, err := readRows(cmd, o)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r ratelimit.Row) bool { return r.Plan != "" })
	if len(invalid) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: these rows in %s are not valid and do not apply; replace them with \"sluice limits set\", or delete them:\n%v\n", where, errors.Join(invalid...))
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), append([]ratelimit.Row{}, rows...))
	case len(rows) > 0:
		return printRows(cmd.OutOrStdout(), rows, time.Now())
	case len(invalid) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "There are no rows in %s: the defaults apply to every address, and no key is counted by itself.\n", where)
	}
	return nil
}

// readRows returns the valid rows, and an error for each invalid row.
func readRows(cmd *cobra.Command, o *rowStorage) (rows []ratelimit.Row, invalid ratelimit.InvalidRows, where string, err error) {
	s, where, err := o.open(cmd)
	if err != nil {
		return nil, nil, "", err
	}
	rows, err = s.List(cmd.Context())
	invalid, ok := errors.AsType[ratelimit.InvalidRows](err)
	if err != nil && !ok {
		return nil, nil, "", fmt.Errorf("the rows in %s cannot be read: %w", where, err)
	}
	return rows, invalid, where, nil
}

func printRows(w io.Writer, rows []ratelimit.Row, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROW\tACTION\tRECORDS\tIMPORTS\tREQUESTS\tQUOTAS\tUPDATED\tEXPIRES\tNOTE")
	for _, r := range rows {
		expires := rowExpires(r)
		if r.Expired(now) {
			expires = "expired"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name(), r.Action, orDefault(r.Records), orDefault(r.Imports), orDefault(r.Requests), quotasOf(r),
			r.UpdatedAt.Format(time.RFC3339), expires, r.Note)
	}
	return table.Flush()
}

func removeLimitsCommand(o *rowStorage) *cobra.Command {
	return &cobra.Command{
		Use:     "remove CIDR|key:ID",
		Short:   "Remove the row of a block or a key",
		Example: `  sluice limits remove 192.0.2.0/24`,
		Args:    oneArg("one CIDR block, address or key:ID, as \"sluice limits list\" shows it"),
		RunE:    func(cmd *cobra.Command, args []string) error { return removeLimits(cmd, o, args[0]) },
	}
}

func removeLimits(cmd *cobra.Command, o *rowStorage, text string) error {
	const longest = 128 // any prefix length, because CLIENT_IPV6_PREFIX may have been different when the row was set
	r, err := parseRowName(text, longest)
	if err != nil {
		return err
	}
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	err = removeRow(cmd, o, s, r.Name())
	if errors.Is(err, ratelimit.ErrNoRow) {
		return fmt.Errorf("there is no row %s in %s; \"sluice limits list\" shows the rows", r.Name(), where)
	}
	if err != nil {
		return fmt.Errorf("the row %s in %s may still apply: %w", r.Name(), where, err)
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), struct {
			CIDR  netip.Prefix `json:"cidr,omitzero"`
			KeyID string       `json:"key_id,omitzero"`
		}{r.CIDR, r.KeyID})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "The row %s is removed. It has no effect after %d seconds.\n", r.Name(), ratelimit.MaxRowAge/time.Second)
	return nil
}

// removeRow removes a row, and records that.
func removeRow(cmd *cobra.Command, o *rowStorage, s ratelimit.RowManager, name string) error {
	old, err := rowNamed(cmd, s, name)
	if err == nil && old == nil {
		err = ratelimit.ErrNoRow
	}
	if err != nil {
		return err
	}
	return audited(cmd, o, audit.Record{Action: "remove-limit", Of: name}, old, func() (any, error) { return nil, s.Remove(cmd.Context(), name) })
}

// rowNamed returns the row of that name, or nil if there is none. What is not valid counts as a row, of
// which nothing is known.
func rowNamed(cmd *cobra.Command, s ratelimit.RowManager, name string) (any, error) {
	rows, err := s.List(cmd.Context())
	if i := slices.IndexFunc(rows, func(r ratelimit.Row) bool { return r.Name() == name }); i >= 0 {
		return rows[i], nil
	}
	if _, invalid := errors.AsType[ratelimit.InvalidRows](err); invalid {
		return struct{}{}, nil
	}
	return nil, err
}

func checkLimitsCommand(o *rowStorage, keys *keysReader) *cobra.Command {
	return &cobra.Command{
		Use:   "check ADDRESS [key:ID]",
		Short: "Show which rows apply to an address, or to an API key used from there",
		Example: `  sluice limits check 192.0.2.17
  sluice limits check 192.0.2.17 key:7m3kq2xw9abc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return errors.New("give an address, and key:ID for an API key that is used from there")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return checkLimits(cmd, o, keys, args[0], args[1:]) },
	}
}

func checkLimits(cmd *cobra.Command, o *rowStorage, keys *keysReader, text string, names []string) error {
	prefix, err := ipv6Prefix(o.getenv)
	if err != nil {
		return err
	}
	client, err := ratelimit.ParseAddress(text, prefix)
	if err != nil {
		return usageError("%q is not an IPv4 or IPv6 address", text)
	}
	var key ratelimit.Row
	if len(names) > 0 {
		if key, err = parseRowName(names[0], prefix); err == nil && key.KeyID == "" {
			err = usageError("%q does not begin with key:", names[0])
		}
		if err != nil {
			return err
		}
	}
	rows, _, where, err := readRows(cmd, o) // invalid rows are ignored, because they apply to no address
	if err != nil {
		return err
	}
	table, err := ratelimit.NewRows(rows)
	if err != nil {
		return fmt.Errorf("the rows in %s: %w", where, err)
	}
	of := ratelimit.Caller{Address: client, KeyID: key.KeyID, Used: key.KeyID}
	if err := countedAs(cmd, o, keys, &of); err != nil {
		return err
	}
	m := table.Find(of, time.Now())
	address := ratelimit.AddressIdentity(client)
	if o.json {
		return printJSON(cmd.OutOrStdout(), checkJSON{Address: address, Counted: ratelimit.Named(m.Identity), Rows: append([]ratelimit.Row{}, m.Rows...), MissingPlan: m.MissingPlan})
	}
	if m.MissingPlan != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: there is no plan %q, which the key has.\n", m.MissingPlan)
	}
	if len(m.Rows) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: no row applies; the limits are the defaults\n", address)
	}
	for _, r := range m.Rows {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, expires: %s\n", address, describeRow(r), rowExpires(r))
	}
	return nil
}

// countedAs puts into c which key is counted for the one that is used, and its plan.
func countedAs(cmd *cobra.Command, o *rowStorage, keys *keysReader, c *ratelimit.Caller) error {
	if c.Used == "" {
		return nil
	}
	s, known, err := openBeside(cmd, o, keys)
	if err != nil {
		return err
	}
	if !known {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning: without --keys-table, it is unknown whether the key has a plan.")
		return nil
	}
	k, err := s.Get(cmd.Context(), c.Used)
	if err == nil && k.CountedAs != "" {
		c.KeyID = k.CountedAs
		k, err = s.Get(cmd.Context(), k.CountedAs)
	}
	if errors.Is(err, access.ErrNotFound) {
		err = nil
	}
	c.Plan = k.Plan
	return err
}

type checkJSON struct {
	Address     string          `json:"address"` // for IPv6, the prefix that is counted as one address
	Counted     string          `json:"counted"` // who is charged: address:… or key:…
	Rows        []ratelimit.Row `json:"rows"`    // what the first does not set, the second does; none if the defaults apply
	MissingPlan string          `json:"missing_plan,omitzero"`
}
