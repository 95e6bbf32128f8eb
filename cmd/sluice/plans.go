package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/ratelimit"
)

func plansCommand(getenv func(string) string) *cobra.Command {
	o, keys := newRowStorage(getenv, "plans"), keysBeside()
	cmd := o.command("plans", "Set limits that any number of API keys share",
		`Set the limits of plans. Any number of API keys can have a plan ("sluice keys create
--plan", "sluice keys set-plan"). The service counts the requests with such a key by the
key, over all addresses, and not by their addresses; each key has the limits of the plan
for itself. A row of "sluice limits set key:ID" overrides single limits of the plan.

Plans need API keys: a service with AUTH_MODE=none, the default of "sluice serve",
ignores them.`, setPlansCommand(o), listPlansCommand(o, keys), removePlanCommand(o, keys))
	keys.addFlag(cmd, getenv, "API keys")
	return cmd
}

// noteThatPlansNeedKeys warns if API keys may be off. In a deployment they are on.
func noteThatPlansNeedKeys(cmd *cobra.Command, getenv func(string) string, deployed bool) {
	if !deployed && getenv("AUTH_MODE") != "api-key" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note: plans have no effect while API keys are off; start \"sluice serve\" with AUTH_MODE=api-key.")
	}
}

func setPlansCommand(o *rowStorage) *cobra.Command {
	var r ratelimit.Row
	cmd := &cobra.Command{
		Use:   "set NAME [--records N] [--imports N] [--requests N] [--records-per-month N] [--imports-per-day N] [--note TEXT]",
		Short: "Set or replace a plan",
		Long: `Set or replace a plan. For a limit that is not given, the default of the service applies.
Days and months have a quota only if one is given. Export jobs are outside the quota of
records, so a key with one may create them only with --export-jobs.`,
		Example: `  sluice plans set pro --records 1000 --imports 400 --records-per-month 5000000 --note "99 a month"`,
		Args:    oneArg("the name of one plan"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimitFlags(cmd); err != nil {
				return err
			}
			r.Plan = args[0]
			if !ratelimit.IsPlan(r.Plan) {
				return usageError("%w", access.CheckPlan(r.Plan))
			}
			noteThatPlansNeedKeys(cmd, o.getenv, o.dynamodb != "" || o.inTable(cmd))
			return putRow(cmd, o, r, time.Now())
		},
	}
	addLimitFlags(cmd, &r)
	cmd.Flags().StringVar(&r.Note, "note", "", "text that says what the plan is for")
	return cmd
}

// planJSON is a plan in the output of "plans list".
type planJSON struct {
	ratelimit.Row
	Keys *int `json:"keys"` // how many keys name it; null if that is unknown
}

func listPlansCommand(o *rowStorage, keys *keysReader) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the plans, with how many keys have each",
		Example: `  sluice plans list`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listPlans(cmd, o, keys) },
	}
}

func listPlans(cmd *cobra.Command, o *rowStorage, keys *keysReader) error {
	rows, _, where, err := readRows(cmd, o)
	if err != nil {
		return err
	}
	counts, err := keysByPlan(cmd, o, keys)
	if err != nil {
		return err
	}
	plans := []planJSON{}
	for _, r := range rows {
		if r.Plan == "" {
			continue
		}
		p := planJSON{Row: r}
		if counts != nil {
			n := counts[r.Plan]
			p.Keys = &n
		}
		plans = append(plans, p)
		delete(counts, r.Plan)
	}
	for plan, n := range counts {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: there is no plan %q, which %d keys have; the defaults apply to each of them.\n", plan, n)
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), plans)
	case len(plans) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "There are no plans in %s.\n", where)
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PLAN\tRECORDS\tIMPORTS\tREQUESTS\tQUOTAS\tKEYS\tUPDATED\tNOTE")
	for _, p := range plans {
		n := "unknown"
		if p.Keys != nil {
			n = strconv.Itoa(*p.Keys)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Plan, orDefault(p.Records), orDefault(p.Imports), orDefault(p.Requests), quotasOf(p.Row), n, p.UpdatedAt.Format(time.RFC3339), p.Note)
	}
	return w.Flush()
}

// keysByPlan counts the keys that are not revoked; nil if their table is unknown.
func keysByPlan(cmd *cobra.Command, o *rowStorage, keys *keysReader) (map[string]int, error) {
	s, known, err := openBeside(cmd, o, keys)
	if err != nil || !known {
		return nil, err
	}
	counts, err := access.KeysByPlan(cmd.Context(), s)
	if err != nil {
		return nil, fmt.Errorf("the keys cannot be read: %w", err)
	}
	return counts, nil
}

func removePlanCommand(o *rowStorage, keys *keysReader) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a plan that no key has",
		Example: `  sluice plans remove pro`,
		Args:    oneArg("the name of one plan, as \"sluice plans list\" shows it"),
		RunE:    func(cmd *cobra.Command, args []string) error { return removePlan(cmd, o, keys, args[0]) },
	}
}

func removePlan(cmd *cobra.Command, o *rowStorage, keys *keysReader, name string) error {
	if !ratelimit.IsPlan(name) {
		return usageError("%w", access.CheckPlan(name))
	}
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	counts, err := keysByPlan(cmd, o, keys)
	switch {
	case err != nil:
		return err
	case counts == nil:
		return usageError("it is unknown whether keys have the plan: name their table with --keys-table or KEYS_TABLE")
	case counts[name] > 0:
		return fmt.Errorf("%d keys have the plan %s, so it is not removed; \"sluice keys list\" shows them, and \"sluice keys set-plan\" gives them another", counts[name], name)
	}
	r := ratelimit.Row{Plan: name}
	err = removeRow(cmd, o, s, r.Name())
	if errors.Is(err, ratelimit.ErrNoRow) {
		return fmt.Errorf("there is no plan %s in %s; \"sluice plans list\" shows the plans", name, where)
	}
	if err != nil {
		return fmt.Errorf("the plan %s in %s may still exist: %w", name, where, err)
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), struct {
			Plan string `json:"plan"`
		}{name})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "The plan %s is removed.\n", name)
	return nil
}

var limitFlags = []string{"records", "imports", "requests", "records-per-day", "records-per-month", "imports-per-day", "imports-per-month"}

// checkLimitFlags rejects limits below 1.
func checkLimitFlags(cmd *cobra.Command) error {
	for _, name := range limitFlags {
		if n, _ := cmd.Flags().GetInt64(name); cmd.Flags().Changed(name) && n < 1 {
			return usageError("--%s %d must be at least 1; omit it for the default (of a quota, none), or use \"sluice limits set\" with --action block", name, n)
		}
	}
	return nil
}

func addLimitFlags(cmd *cobra.Command, r *ratelimit.Row) {
	cmd.Flags().Int64Var(&r.Records, "records", 0, "records per second, over all export routes")
	cmd.Flags().Int64Var(&r.Imports, "imports", 0, "calls per second, over all import routes")
	cmd.Flags().Int64Var(&r.Requests, "requests", 0, "requests per second to each route")
	cmd.Flags().Int64Var(&r.RecordsPerDay, "records-per-day", 0, "quota of records of a key in a UTC day")
	cmd.Flags().Int64Var(&r.RecordsPerMonth, "records-per-month", 0, "quota of records of a key in a calendar month (UTC)")
	cmd.Flags().Int64Var(&r.ImportsPerDay, "imports-per-day", 0, "quota of imports of a key in a UTC day")
	cmd.Flags().Int64Var(&r.ImportsPerMonth, "imports-per-month", 0, "quota of imports of a key in a calendar month (UTC)")
	cmd.Flags().BoolVar(&r.ExportJobs, "export-jobs", false, "let keys with a quota of records create export jobs, which it does not count")
}

// putRow completes r, stores it and prints it.
func putRow(cmd *cobra.Command, o *rowStorage, r ratelimit.Row, now time.Time) error {
	switch set := r.ExportJobs || slices.ContainsFunc(limitFlags, cmd.Flags().Changed); {
	case r.Plan != "" && !set:
		return usageError("the plan would set nothing; set --records, --imports, --requests or a quota")
	case r.Plan == "" && !set && !cmd.Flags().Changed("action"):
		return usageError("the row would set nothing; set --records, --imports, --requests, a quota or --action (--action limit for the defaults)")
	}
	r, err := ratelimit.NewRow(r, now)
	if err != nil {
		return usageError("%w", err)
	}
	warning, err := r.Limits().Check(exportRoutes())
	if err != nil {
		return usageError("%w", err)
	}
	if warning != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", warning+".")
	}
	s, where, err := o.openNew(cmd)
	if err != nil {
		return err
	}
	old, err := rowNamed(cmd, s, r.Name())
	if err == nil {
		err = audited(cmd, o, audit.Record{Action: "set-limit", Of: r.Name()}, old, func() (any, error) { return r, s.Put(cmd.Context(), r) })
	}
	if err != nil {
		return fmt.Errorf("%s was not set in %s: %w", r.Name(), where, err)
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s. All instances apply it within %d seconds.\n", describeRow(r), ratelimit.MaxRowAge/time.Second)
	return nil
}
