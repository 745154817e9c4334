package main

import (
	"context"
	"errors"
	"log"
	"math"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/etcdserver/api/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

type etcdLock struct {
	client  *clientv3.Client
	seconds int
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

// The timeout of a request that does not wait for a lock.
const etcdTimeout = 2 * time.Second

func newEtcdLock(t target) locker {
	endpoints := []string{}
	for _, port := range t.Ports {
		endpoints = append(endpoints, address(port))
	}
	// etcdctl's defaults.
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 2 * time.Second,
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 6 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithBlock()},
	})
	if err != nil {
		log.Fatal(err)
	}
	return &etcdLock{client: client, seconds: int(math.Ceil(float64(t.TTL) / 1000))}
}

func short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(context.Background()), etcdTimeout)
}

func (l *etcdLock) hasSession() bool {
	if l.session == nil {
		return false
	}
	select {
	case <-l.session.Done():
		return false
	default:
		return true
	}
}

func (l *etcdLock) acquire(name string, wait time.Duration, begin time.Time) answer {
	if !l.hasSession() {
		ctx, cancel := short()
		lease, err := l.client.Grant(ctx, int64(l.seconds))
		cancel()
		if err != nil {
			return failed(err)
		}
		if l.session, err = concurrency.NewSession(l.client, concurrency.WithLease(lease.ID)); err != nil {
			return failed(err)
		}
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(context.Background()), wait)
	defer cancel()
	l.mutex = concurrency.NewMutex(l.session, "/"+name)
	if err := l.mutex.Lock(ctx); err != nil {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return failed(err)
		}
		return answer{Result: "held"}
	}
	kept := l.extend(begin)
	if kept.Result != "renewed" {
		return answer{Result: "failed", Reason: "the session ended during the wait"}
	}
	shortly, end := short()
	defer end()
	found, err := l.client.Get(shortly, l.mutex.Key())
	if err != nil {
		return failed(err)
	}
	if len(found.Kvs) == 0 {
		return answer{Result: "failed", Reason: "the session ended during the wait"}
	}
	return answer{Result: "granted", Valid: kept.Valid, Fence: found.Kvs[0].CreateRevision}
}

func (l *etcdLock) extend(begin time.Time) answer {
	ctx, cancel := short()
	defer cancel()
	sent := time.Now()
	kept, err := l.client.KeepAliveOnce(ctx, l.session.Lease())
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return answer{Result: "lost"}
	}
	if err != nil {
		return failed(err)
	}
	until := sent.Add(time.Duration(kept.TTL) * time.Second)
	return answer{Result: "renewed", Valid: until.Sub(begin).Milliseconds()}
}

func (l *etcdLock) release() answer {
	ctx, cancel := short()
	defer cancel()
	// Unlock succeeds even if the key no longer exists. The lease may exist longer than its session, so check it.
	if !l.hasSession() {
		left, err := l.client.TimeToLive(ctx, l.session.Lease())
		if err != nil {
			return failed(err)
		}
		if left.TTL <= 0 {
			return answer{Result: "lost"}
		}
	}
	if err := l.mutex.Unlock(ctx); err != nil {
		return failed(err)
	}
	return answer{Result: "released"}
}

func (l *etcdLock) abandon() { l.session.Orphan() }
