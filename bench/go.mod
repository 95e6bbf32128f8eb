module sluice/bench

go 1.26

require (
	github.com/aws/aws-lambda-go v1.55.1
	sluice v0.0.0
)

require github.com/sethvargo/go-limiter v0.7.1 // indirect

replace sluice => ../
