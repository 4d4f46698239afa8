package host

// What a data directory holds, and the name under which its keys are wrapped: for those who look at it without a host.
const (
	StoreDir   = "store"
	KeyFile    = "key"
	Deployment = "local"
)
