package memory
import "testing"
func BenchmarkP(b *testing.B){ f:=sluice(1<<40,imp); for b.Loop(){ f("10.0.0.1") } }
func BenchmarkR(b *testing.B){ f:=sluice(1,imp); for b.Loop(){ f("10.0.0.1") } }
